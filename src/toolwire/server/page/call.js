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
