// The report: its samples stand in the page itself, packed in chunks.
import { $, browse, h } from "./samples.js";

const packed = JSON.parse($("about").textContent);
const chunks = new Map();

async function unpack(id) {
  const text = atob($(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function story(run, n) {
  const id = `chunk-${run}-${Math.floor(n / packed.chunk)}`;
  if (!chunks.has(id)) chunks.set(id, unpack(id));
  return (await chunks.get(id))[n % packed.chunk];
}

if (typeof DecompressionStream === "undefined") {
  $("samples").replaceChildren(h("p", { class: "card" }, "This browser cannot unpack the samples; one from 2023 or later can."));
} else {
  await browse(packed, { index: (run) => unpack(`index-${run}`), story });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
