"use strict";
// A page without a script shows times in UTC and says so; the exact time in UTC stays in the title. Dates of a site
// stay as they are.
const thisYear = new Date().getFullYear();
const showTimes = (part) => {
  for (const one of part.querySelectorAll("time[data-moment]")) {
    const moment = new Date(one.dateTime);
    if (isNaN(moment)) continue;
    const year = moment.getFullYear() === thisYear ? undefined : "numeric";
    one.textContent = moment.toLocaleString("en-GB", {
      day: "numeric", month: "short", year, hour: "2-digit", minute: "2-digit", second: "2-digit",
    });
  }
};
const offerCopies = (part) => {
  for (const block of part.querySelectorAll("pre[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy: " + block.getAttribute("aria-label"));
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    });
    block.after(button);
  }
};
showTimes(document);
offerCopies(document);
