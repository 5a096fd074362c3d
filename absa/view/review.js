// A person's decisions about a sample: the queue of `absa review`, in the page.
import { badge, chip, h, quote, t } from "./samples.js";

const POLARITIES = ["positive", "negative", "neutral"];
const LABELS = [...POLARITIES, "mixed"];

export function drawReview(path, row, { get, post }) {
  const body = h("div", { class: "review-body" });
  const message = h("p", { class: "notice bad", role: "status", hidden: true });
  const reviewer = () => localStorage.getItem("reviewer") || "";

  const act = async (action) => {
    try {
      fill(await post(path, { ...action, reviewer: reviewer() }));
      message.hidden = true;
    } catch (error) {
      message.textContent = error.message;
      message.hidden = false;
    }
  };
  const button = (name, action, isOn = false) => h("button", {
    type: "button", class: "toggle", "aria-pressed": String(isOn), on: { click: () => act(action) },
  }, t(name));

  const candidate = (asked, n) => {
    const decided = asked.decision;
    const is = (action, polarity) => decided?.action === action && (!polarity || decided.polarity === polarity);
    return h("li", { class: asked.in_result ? "candidate" : "candidate outside" },
      h("p", {}, h("strong", { lang: row.l }, asked.aspect), " ", chip(asked.polarity),
        asked.evidence && [" ", quote(asked.evidence, row.l)], !asked.in_result && badge("", t("not in the result"))),
      h("p", { class: "quiet" }, asked.said.map(([who, says]) => `${who}: ${says}`).join(" · ")),
      h("p", { class: "decide" }, asked.in_result
        ? [button("keep", { action: "keep", row: n }, is("keep")),
          POLARITIES.filter((word) => word !== asked.polarity).map((word) => button(`→ ${word}`, { action: "flip", row: n, polarity: word }, is("flip", word))),
          button("drop", { action: "drop", row: n }, is("drop"))]
        : button("add", { action: "add", row: n, aspect: asked.aspect, polarity: asked.polarity, evidence: asked.evidence }, is("add"))));
  };

  const addForm = () => {
    const aspect = h("input", { "aria-label": t("Aspect"), placeholder: t("Aspect"), autocomplete: "off" });
    const polarity = h("select", { "aria-label": t("Polarity") }, POLARITIES.map((word) => h("option", { value: word }, t(word))));
    const evidence = h("input", { "aria-label": t("Evidence: words of the text"), placeholder: t("Evidence: words of the text"), autocomplete: "off" });
    return h("form", { class: "add-form", on: { submit: (event) => {
      event.preventDefault();
      act({ action: "add", aspect: aspect.value, polarity: polarity.value, evidence: evidence.value });
    } } }, aspect, polarity, evidence, h("button", { class: "toggle" }, t("add")));
  };

  function fill(asked) {
    const who = h("input", { value: reviewer(), placeholder: t("your name"), "aria-label": t("Reviewer"),
      on: { change: (event) => localStorage.setItem("reviewer", event.target.value.trim()) } });
    body.replaceChildren(
      asked.reasons.length ? h("p", { class: "quiet" }, asked.reasons.map((reason) => reason.detail).join(" · ")) : "",
      h("ul", { class: "candidates" }, asked.candidates.map(candidate),
        asked.added.map((extra) => h("li", { class: "candidate" }, h("p", {}, h("strong", {}, extra.aspect), " ", chip(extra.polarity), " ", quote(extra.evidence, row.l), badge("accent", t("added")))))),
      addForm(),
      h("p", { class: "decide" }, h("span", { class: "quiet" }, t("Label")), LABELS.map((word) => button(word, { action: "label", label: word }, asked.label === word))),
      h("p", { class: "decide" },
        h("button", { type: "button", class: "primary", on: { click: () => act({ action: "done" }) } }, t(asked.finished ? "Reviewed ✓" : "Done with this text")),
        asked.decisions ? button("undo", { action: "undo" }) : "", who));
    box.dataset.finished = String(asked.finished);
    box.firstChild.lastChild.textContent = asked.finished ? " ✓" : asked.decisions ? ` (${asked.decisions})` : "";
  }

  let isLoaded = false;
  const box = h("details", { class: "part review", on: { toggle: async () => {
    if (!box.open || isLoaded) return;
    isLoaded = true;
    try {
      fill(await get(path));
    } catch (error) {
      message.textContent = error.message;
      message.hidden = false;
    }
  } } }, h("summary", {}, t("Review this text"), h("span", {}, "")), message, body);
  return box;
}
