// The drawn graph: nodes light up as they work, edges as they are taken.
import { s } from "./samples.js";

let drawn = 0;

// An element of the server's drawing: name, attributes, children. Names of nodes become text.
function build([tag, attributes, ...children], mark) {
  const own = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, value.replaceAll("absa-", `absa-${mark}-`)]));
  // Lit edges are thicker; their tips are not.
  if (tag === "marker") Object.assign(own, { markerUnits: "userSpaceOnUse", markerWidth: 10, markerHeight: 10 });
  return s(tag, own, children.map((child) => (Array.isArray(child) ? build(child, mark) : child)));
}

export class Drawing {
  constructor(tree) {
    this.svg = build(tree, ++drawn);
    this.nodes = new Map([...this.svg.querySelectorAll("[data-node]")].map((node) => [node.dataset.node, node]));
    this.edges = [...this.svg.querySelectorAll("[data-edge]")].map((path) => {
      const [from, to] = path.dataset.edge.split(" ");
      return { from, to, path, isLit: false };
    });
    this.lists = [...new Set(this.edges.map(({ to }) => to).filter((to) => to.includes("*")))];
    this.reset();
  }

  reset() {
    this.ran = new Set(["__start__"]);
    for (const node of this.nodes.values()) node.classList.remove("busy", "done", "failed", "glow");
    for (const edge of this.edges) this.light(edge, false);
    this.nodes.get("__start__")?.classList.add("done");
  }

  begin(name) {
    this.mark(name, "busy");
    // A list of verdicts is one end of its edges: it runs with the first of its nodes.
    if (this.nodes.get(name)?.classList.contains("small")) {
      for (const list of this.lists) if (this.before(list).some(({ from }) => this.ran.has(from))) this.enter(list);
    } else this.enter(name);
    this.ran.add(name);
  }

  end(name) {
    this.nodes.get(name)?.classList.remove("busy");
    this.mark(name, "done");
  }

  fail(name) {
    for (const node of this.nodes.values()) if (node.classList.contains("busy")) node.classList.remove("busy");
    this.mark(name, "failed");
  }

  finish() {
    this.begin("__end__");
    this.end("__end__");
  }

  // All at once: what ran, in its order.
  follow(path) {
    this.reset();
    for (const name of path) {
      this.begin(name);
      this.end(name);
    }
    this.finish();
  }

  mark(name, kind) {
    const node = this.nodes.get(name);
    if (!node) return;
    node.classList.add(kind);
    if (kind === "busy") this.reveal(node);
  }

  // The drawing scrolls in its own box so that the node at work is in sight.
  reveal(node) {
    const box = this.svg.closest(".drawing-box");
    if (!box || box.scrollHeight <= box.clientHeight) return;
    const [at, seen] = [node.getBoundingClientRect(), box.getBoundingClientRect()];
    if (at.top < seen.top + 60 || at.bottom > seen.bottom - 60) box.scrollTop += at.top - seen.top - seen.height / 2;
  }

  before(name) {
    return this.edges.filter(({ to }) => to === name);
  }

  // A node was reached from those of its predecessors that ran, unless one of them was only on the
  // way to another.
  enter(name) {
    const reached = this.before(name).filter(({ from }) => this.ran.has(from));
    const passed = new Set(reached.flatMap(({ from }) => [...this.ancestors(from)]));
    for (const edge of reached) if (!passed.has(edge.from)) this.light(edge, true);
    this.ran.add(name);
  }

  ancestors(name, seen = new Set()) {
    for (const { from, isLit } of this.before(name)) {
      if (!isLit || seen.has(from)) continue;
      seen.add(from);
      this.ancestors(from, seen);
    }
    return seen;
  }

  light(edge, isLit) {
    edge.isLit = isLit;
    edge.path.classList.toggle("lit", isLit);
  }

  // A glow goes along the path once more, for texts that were too quick for the eye.
  async glow(path, pause) {
    for (const name of path) {
      const node = this.nodes.get(name);
      if (!node || !this.svg.isConnected) continue;
      node.classList.add("glow");
      await new Promise((go) => setTimeout(go, pause));
      setTimeout(() => node.classList.remove("glow"), pause * 4);
    }
  }
}

// What only one of two drawings has.
export function markDifferences(before, after) {
  const names = (drawing) => new Set(drawing.edges.map(({ from, to }) => `${from} ${to}`));
  const [old, now] = [names(before), names(after)];
  let swapped = 0;
  for (const [drawing, other, kind, nodes] of [[before, now, "gone", after.nodes], [after, old, "new", before.nodes]]) {
    for (const { from, to, path } of drawing.edges) {
      const isOwn = !other.has(`${from} ${to}`);
      path.classList.toggle(kind, isOwn);
      swapped += isOwn && path.hasAttribute("marker-end");
    }
    for (const [name, node] of drawing.nodes) node.classList.toggle(kind, !nodes.has(name));
  }
  return swapped;
}
