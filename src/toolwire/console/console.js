// Signs in with the key after the # of a link, and brings news into the page.
// All else works without a script.
const root = new URL(".", document.currentScript.src).pathname.slice(0, -1);
const signIn = document.getElementById("sign-in");
const useKey = () => {
  if (!signIn || !("linkKeys" in signIn.dataset) || !location.hash.startsWith("#key=")) return;
  signIn.elements.key.value = location.hash.slice(5);
  history.replaceState(null, "", location.pathname + location.search);
  signIn.requestSubmit();
};
useKey();
addEventListener("hashchange", useKey);
const region = document.querySelector("[data-topics]");
const topics = region ? region.dataset.topics.split(" ").filter(Boolean) : [];
const touched = new WeakSet();
const note = (event) => {
  const part = event.target.closest("[data-key]");
  if (part) touched.add(part);
};
document.addEventListener("input", note);
document.addEventListener("toggle", note, true);
// A part that someone reads or fills in, or that says what is wrong with an entry, stays as it is: nothing moves under a
// finger that is about to press.
const isBusy = (part) =>
  touched.has(part) || part.contains(document.activeElement) || part.querySelector("[role=alert]");
const endPart = (part) => {
  for (const control of part.querySelectorAll("button, input, select, textarea")) control.disabled = true;
  if (part.dataset.over && !part.querySelector(".over")) {
    const said = document.createElement("p");
    said.className = "notice over";
    said.textContent = part.dataset.over;
    part.prepend(said);
  }
};
const bring = (next) => {
  showTimes(next);
  offerCopies(next);
  for (const list of next.querySelectorAll("[data-list]")) {
    const old = document.querySelector(`[data-list="${list.dataset.list}"]`);
    if (!old) continue;
    const here = new Map([...old.children].map((part) => [part.dataset.key, part]));
    const keys = new Set();
    for (const part of [...list.children]) {
      keys.add(part.dataset.key);
      const known = here.get(part.dataset.key);
      if (!known) old.append(part);
      else if (!isBusy(known) && known.innerHTML !== part.innerHTML) known.replaceWith(part);
    }
    for (const [key, part] of here) if (!keys.has(key)) part.dataset.over ? endPart(part) : part.remove();
  }
  for (const part of next.querySelectorAll("[data-part]")) {
    const old = document.querySelector(`[data-part="${part.dataset.part}"]`);
    if (old && !isBusy(old) && old.innerHTML !== part.innerHTML) old.replaceWith(part);
  }
  const links = document.querySelector("header nav"), nextLinks = next.querySelector("header nav");
  if (links && nextLinks && !isBusy(links) && links.innerHTML !== nextLinks.innerHTML) links.replaceWith(nextLinks);
  document.title = next.title;
  document.dispatchEvent(new Event("news"));
};
let isFetching = false, isStale = false;
const refresh = async () => {
  if (isFetching) { isStale = true; return; }
  isFetching = true;
  try {
    const answer = await fetch(location.pathname + location.search, { headers: { accept: "text/html" } });
    if (answer.status === 401) { location.reload(); return; }
    bring(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { isStale = false; } finally { isFetching = false; }
  if (isStale) { isStale = false; refresh(); }
};
if (topics.length) {
  const news = new EventSource(root + "/events");
  news.addEventListener("change", (event) => {
    if (event.data.split(" ").some((topic) => topics.includes(topic))) refresh();
  });
  // What happened before the stream was open, or while it was away, is not told.
  news.addEventListener("open", refresh);
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches("[data-enter]")) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});
