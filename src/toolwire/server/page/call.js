// Submits the form of the call once a second, unless a key must be typed, and shows what comes back.
const look = async () => {
  const call = document.querySelector('section[data-call="open"]');
  const form = call && call.querySelector("form[data-look]");
  const key = form && form.querySelector("#key");
  if (!form || (key && !key.value)) return;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("step", "call");
  try {
    const answer = await fetch(form.action, { method: "POST", headers: { accept: "text/html" }, body: fields });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("section[data-call]");
    if (!answer.ok || !fresh) return;
    showTimes(fresh);
    if (fresh.dataset.call === "over" || fresh.dataset.asks !== call.dataset.asks) {
      call.replaceWith(fresh);
      document.title = page.title;
      offerCopies(fresh);
      showHistory();
      for (const field of fresh.querySelectorAll("input[name=key]")) if (key) field.value = key.value;
    } else
      for (const part of ["[data-progress]", "[role=status]"])
        call.querySelector(part).replaceWith(fresh.querySelector(part));
  } catch {} // the server is away: the next look may find it again
};
if (document.querySelector('section[data-call="open"]')) {
  const timer = setInterval(async () => {
    await look();
    if (!document.querySelector('section[data-call="open"]')) clearInterval(timer);
  }, 1000);
}
// The last calls of this tab: which tool, how it ended, and a link that fills its form again.
const lastCalls = document.querySelector("[data-history]");
const showHistory = () => {
  const key = "toolwire-calls " + lastCalls.dataset.history;
  let calls = [];
  try {
    calls = JSON.parse(sessionStorage.getItem(key)) || [];
    const made = document.querySelector("[data-entry]");
    const entry = made && { ...JSON.parse(made.dataset.entry), at: new Date().toISOString() };
    if (entry && !calls.some((one) => one.id === entry.id)) {
      calls = [entry, ...calls].slice(0, 20);
      sessionStorage.setItem(key, JSON.stringify(calls));
    }
  } catch {} // storage is off: there is no history then
  lastCalls.hidden = !calls.length;
  const list = lastCalls.querySelector("ol");
  list.replaceChildren();
  for (const one of calls) {
    const row = document.createElement("li");
    const name = document.createElement(one.link ? "a" : "span");
    if (one.link) name.href = new URL(one.link, location.origin).href;
    name.textContent = one.tool;
    const end = document.createElement("span");
    end.className = "end";
    end.textContent = one.end;
    const when = document.createElement("time");
    when.className = "when muted";
    when.dateTime = one.at;
    when.dataset.moment = "";
    row.append(name, end, when);
    list.append(row);
  }
  showTimes(list);
  lastCalls.querySelector("button").onclick = () => {
    sessionStorage.removeItem(key);
    showHistory();
  };
};
if (lastCalls) showHistory();
