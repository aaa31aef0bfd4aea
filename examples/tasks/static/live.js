// Shows what others, such as an assistant, change in the list while this page is open.
"use strict";

const EVERY_MS = 1000, SLOW_MS = 10000;
const board = document.getElementById("board");
const news = document.getElementById("news");
let tag = board.dataset.tag;

async function look() {
  let wait = EVERY_MS;
  try {
    if (document.visibilityState === "visible") wait = await taken();
  } catch {
    wait = SLOW_MS;
  }
  setTimeout(look, wait);
}

async function taken() {
  const answer = await fetch("/board", { headers: { "If-None-Match": tag }, redirect: "error" });
  if (answer.status === 401) location.assign("/");
  if (answer.status !== 200) return answer.status === 304 ? EVERY_MS : SLOW_MS;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
  tag = answer.headers.get("ETag");
  merge(fresh);
  return EVERY_MS;
}

// What somebody is about to change stays as it is until they are done with it.
function merge(fresh) {
  const list = board.querySelector("ul");
  const known = new Map([...list.children].map((item) => [item.id, item]));
  let last = null;
  for (let item of [...fresh.querySelector("ul").children]) {
    const old = known.get(item.id);
    known.delete(item.id);
    if (old && (old.dataset.digest === item.dataset.digest || inUse(old))) {
      item = old;
    } else {
      say(`${old ? "Changed" : "Added"}: ${item.querySelector("h2").textContent}`);
      item.classList.add("fresh");
      if (old) old.replaceWith(item);
      else if (last) last.after(item);
      else list.prepend(item);
    }
    last = item;
  }
  for (const gone of known.values()) {
    say(`Deleted: ${gone.querySelector("h2").textContent}`);
    gone.remove();
  }
  board.querySelector(".empty")?.remove();
  const empty = fresh.querySelector(".empty");
  if (empty) board.append(empty);
}

function inUse(item) {
  return item.contains(document.activeElement) || item.querySelector("details[open]") !== null;
}

function say(sentence) {
  news.textContent = sentence;
}

look();
