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
      return { from, to, path };
    });
    this.reset();
  }

  reset() {
    this.steps = new Map([["__start__", 0]]);
    this.step = 0;
    this.isBeginning = false;
    for (const node of this.nodes.values()) node.classList.remove("busy", "done", "failed", "glow");
    for (const { path } of this.edges) path.classList.remove("lit");
    this.nodes.get("__start__")?.classList.add("done");
  }

  begin(name) {
    if (!this.isBeginning) this.step += 1;
    this.isBeginning = true;
    this.mark(name, "busy");
    this.light(name);
    this.steps.set(name, this.step);
  }

  end(name) {
    this.isBeginning = false;
    this.nodes.get(name)?.classList.remove("busy");
    this.mark(name, "done");
  }

  fail(name) {
    for (const node of this.nodes.values()) if (node.classList.contains("busy")) node.classList.remove("busy");
    this.mark(name, "failed");
  }

  finish() {
    this.isBeginning = false;
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

  // The edges into a node come from those of its predecessors that ran last. A list of verdicts is
  // one end of its edges.
  light(name) {
    const listed = this.edges.filter(({ to }) => to.includes("*")).map(({ from, to }) => ({ from, to }));
    const isPill = this.nodes.get(name)?.classList.contains("small");
    for (const { from, to } of listed) {
      if (!isPill || !this.steps.has(from)) continue;
      this.steps.set(to, this.step);
      this.lightEdges(from, to);
      if (this.steps.has(to.split("*")[1])) this.lightEdges(to, to.split("*")[1]);
    }
    const into = this.edges.filter((edge) => edge.to === name && this.steps.has(edge.from));
    const latest = Math.max(...into.map((edge) => this.steps.get(edge.from)));
    for (const { from } of into) if (this.steps.get(from) === latest) this.lightEdges(from, name);
  }

  lightEdges(from, to) {
    for (const edge of this.edges) if (edge.from === from && edge.to === to) edge.path.classList.add("lit");
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
