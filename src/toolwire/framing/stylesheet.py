"""The one stylesheet of all pages. Its tokens come first; dark follows the setting of the system."""
# FU-32

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{
  color-scheme:light dark; --ground:#f6f7f9; --surface:#fff; --text:#16191d; --muted:#5a6270; --line:#dfe3e8;
  --edge:#7d8694; --accent:#1d5fd1; --on-accent:#fff; --ring:#8ab4ff; --quiet:#eef1f5; --changes-ground:#e9f0fd;
  --costs:#8a5a00; --costs-ground:#fff4de; --destroys:#b3261e; --destroys-ground:#fdeceb; --safe:#1b6b3a;
  --safe-ground:#e8f5ec
}
@media (prefers-color-scheme:dark){
  :root{
    --ground:#101317; --surface:#181c22; --text:#e7eaee; --muted:#9aa4b2; --line:#2b323b; --edge:#6b7684;
    --accent:#8ab4ff; --on-accent:#0b1a33; --ring:#8ab4ff; --quiet:#222831; --changes-ground:#16233b;
    --costs:#ffcf70; --costs-ground:#33280f; --destroys:#ff9b93; --destroys-ground:#3a1715; --safe:#8fd6a8;
    --safe-ground:#11301d
  }
}
*{box-sizing:border-box}
html{font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--text);overflow-wrap:anywhere}
h1{font-size:1.5625rem;line-height:1.2;margin:0 0 12px;text-wrap:balance}
h2{font-size:1.25rem;line-height:1.2;margin:32px 0 12px}
h3{font-size:1rem;line-height:1.2;margin:24px 0 8px}
p{margin:8px 0;max-width:72ch}
a{color:var(--accent);text-underline-offset:2px}
small,.muted{color:var(--muted);font-size:.875rem}
code,pre,.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.92em}
h1 code{font-size:.92em;font-weight:600}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
.skip{
  position:absolute; left:8px; top:-80px; background:var(--surface); padding:12px 16px; border-radius:6px;
  z-index:2
}
.skip:focus{top:8px}
:focus-visible{outline:3px solid var(--ring);outline-offset:2px;border-radius:6px}
.top,.foot{
  display:flex; flex-wrap:wrap; align-items:center; gap:4px 16px; max-width:44rem; margin:0 auto; padding:16px
}
.brand{display:inline-flex;align-items:center;gap:8px;font-weight:700;color:inherit;text-decoration:none}
.brand::before{
  content:""; width:20px; height:20px; border-radius:6px;
  background:linear-gradient(var(--surface),var(--surface)) 50% 50%/10px 2px no-repeat,var(--accent)
}
.top .place{color:var(--muted)}
.top .account{margin-left:auto;display:flex;flex-wrap:wrap;align-items:center;gap:8px 16px}
.top nav{display:flex;flex-wrap:wrap;gap:4px 16px}
.top nav a{padding:10px 0;text-decoration:none}
.top nav a[aria-current]{color:var(--text);box-shadow:0 2px 0 var(--accent)}
.foot{color:var(--muted);font-size:.875rem;padding-bottom:32px}
main{max-width:44rem;margin:0 auto;padding:0 16px 32px}
.narrow main,.narrow .top,.narrow .foot{max-width:32rem}
.wide main,.wide .top,.wide .foot{max-width:76rem}
.card{background:var(--surface);border:1px solid var(--line);border-radius:8px;padding:24px;margin:0 0 16px}
.card>:first-child{margin-top:0}
.card>:last-child{margin-bottom:0}
.facts{display:grid;grid-template-columns:fit-content(min(16rem,40%)) minmax(0,1fr);gap:8px 24px;margin:16px 0}
.facts .facts{margin:0;gap:4px 16px}
.facts dt{color:var(--muted);min-width:0;overflow-wrap:anywhere}
.facts dt small{display:block}
.facts dd{margin:0;min-width:0;overflow-wrap:anywhere}
.terms dt::first-letter{text-transform:uppercase}
.value{white-space:pre-wrap}
.value-list{margin:0;padding-left:20px}
.content{margin:0 0 16px}
.content img,.content audio{display:block;max-width:100%;margin:0 0 8px}
.content img{height:auto;max-height:80vh;background:var(--quiet)}
.content figcaption{color:var(--muted);font-size:.875rem}
.about{margin:4px 0 0}
.hint{color:var(--muted);font-size:.875rem}
.wrong{color:var(--destroys);font-weight:500}
.first{position:absolute;width:1px;height:1px;min-height:0;padding:0;overflow:hidden;clip-path:inset(50%)}
pre+button{min-height:36px;padding:4px 12px;font-size:.875rem;margin-bottom:12px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td,button,.button{overflow-wrap:break-word}
th,td{text-align:left;vertical-align:top;padding:8px 16px 8px 0;border-bottom:1px solid var(--line)}
thead th{position:sticky;top:0;background:var(--surface);color:var(--muted);font-weight:500;font-size:.875rem}
.number{text-align:right}
.badges{display:flex;flex-wrap:wrap;gap:8px;margin:0 0 12px;padding:0;list-style:none}
.badge{
  display:inline-flex; align-items:center; gap:6px; padding:2px 10px; border-radius:99px; font-size:.8125rem;
  font-weight:600; background:var(--quiet); color:var(--muted)
}
.changes{background:var(--changes-ground);color:var(--accent)}
.costs{background:var(--costs-ground);color:var(--costs)}
.destroys{background:var(--destroys-ground);color:var(--destroys)}
.safe{background:var(--safe-ground);color:var(--safe)}
.notice{
  border-left:4px solid var(--edge); border-radius:0 6px 6px 0; background:var(--quiet); color:var(--text);
  padding:12px 16px; margin:16px 0; max-width:none
}
.notice.costs{border-color:var(--costs);background:var(--costs-ground)}
.notice.destroys{border-color:var(--destroys);background:var(--destroys-ground)}
.notice.safe{border-color:var(--safe);background:var(--safe-ground)}
.said{border:1px solid var(--line);border-radius:6px;padding:8px 16px;margin:16px 0;background:var(--ground)}
.said figcaption{color:var(--muted);font-size:.8125rem}
.said blockquote{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
.facts .said{margin:4px 0 0}
[data-hidden]{background:var(--costs-ground);box-shadow:-8px 0 0 var(--costs-ground)}
button,.button{
  display:inline-flex; align-items:center; justify-content:center; min-height:44px; padding:8px 20px;
  font:inherit; font-weight:600; border:1px solid var(--edge); border-radius:6px; background:var(--surface);
  color:var(--text); cursor:pointer; text-decoration:none
}
.primary{background:var(--accent);border-color:var(--accent);color:var(--on-accent)}
.danger{background:var(--surface);border-color:var(--destroys);color:var(--destroys)}
button:hover,.button:hover{filter:brightness(.96)}
.actions{display:flex;flex-wrap:wrap;gap:12px;margin:24px 0 16px}
label,legend,.label{display:block;font-weight:500}
label small,legend small{font-weight:400}
input,select,textarea{
  font:inherit; color:var(--text); background:var(--surface); border:1px solid var(--edge); border-radius:6px
}
input:not([type=checkbox],[type=radio]),select,textarea{
  display:block; width:100%; min-height:44px; padding:8px 12px; margin-top:4px
}
textarea{min-height:120px;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.92em}
[type=checkbox],[type=radio]{width:20px;height:20px;margin:2px 0 0;flex:none;accent-color:var(--accent)}
.check{display:flex;gap:12px;align-items:flex-start;padding:10px 0;font-weight:400;min-height:44px}
.check small{display:block}
.field{margin:16px 0}
[aria-invalid=true]{border-color:var(--destroys)}
fieldset{border:1px solid var(--line);border-radius:6px;padding:8px 16px;margin:16px 0;min-width:0}
legend{padding:0 8px;margin-left:-8px}
details{margin:0;border-top:1px solid var(--line)}
summary{cursor:pointer;padding:10px 0;min-height:44px;color:var(--accent)}
details[open]>summary{margin-bottom:4px}
details.fold{border:0}
.fold>summary{padding:0;min-height:24px}
.fold .facts{grid-template-columns:minmax(6rem,1fr);gap:0;margin:8px 0}
.fold .facts dd{margin:0 0 8px}
details>:last-child{margin-bottom:12px}
.block{
  position:relative; background:var(--quiet); border-radius:6px; padding:12px 16px; margin:8px 0;
  max-height:24rem; overflow:auto
}
time,.small,.how-far{white-space:nowrap}
.small{min-height:36px;padding:4px 12px;font-size:.875rem}
.plain{font-size:1rem;margin:0;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:12px;list-style:none;padding:0}
.tile{margin:0;padding:16px;position:relative}
.tile a{display:block;text-decoration:none}
.tile a::after{content:"";position:absolute;inset:0}
.tile .figure{display:block;font-size:1.5625rem;line-height:1.2;font-weight:600;color:var(--text)}
.timeline{list-style:none;margin:0;padding:0}
.timeline li{
  display:flex; flex-wrap:wrap; align-items:center; gap:4px 12px; padding:8px 0; border-bottom:1px solid var(--line)
}
.timeline .when{margin-left:auto}
.filters{
  display:grid; grid-template-columns:repeat(auto-fit,minmax(9rem,1fr)); gap:12px; align-items:end; margin:16px 0
}
.turn{margin:0 0 16px}
.turn .who{color:var(--muted);font-size:.8125rem;font-weight:600}
.turn p{margin:2px 0 0}
.turn.you p{
  background:var(--changes-ground); border-radius:8px; padding:8px 12px; width:fit-content; max-width:100%
}
.turn .said{margin:8px 0 0}
.said thead th{background:var(--ground)}
.title{font-weight:600;margin:4px 0}
.results{list-style:none;margin:0;padding:0}
.results>li{padding:8px 0;border-bottom:1px solid var(--line)}
.results>li:last-child{border:0}
.asks{border-color:var(--accent);border-width:2px}
.asks h2{margin-top:0}
.say textarea{min-height:64px;font:inherit}
.say .actions{margin:8px 0 0}
progress,meter{accent-color:var(--accent);width:8rem;max-width:100%;height:12px;vertical-align:middle}
.empty{color:var(--muted);text-align:center;padding:32px 16px}
.row{display:flex;flex-wrap:wrap;gap:8px 24px;align-items:flex-start;justify-content:space-between}
.row>.grow{flex:1 1 16rem;min-width:0}
.split{display:grid;grid-template-columns:20rem minmax(0,1fr);gap:32px;align-items:start}
.split.talks{grid-template-columns:minmax(0,1fr) 20rem}
.items{list-style:none;margin:0;padding:0}
.items>li{border-bottom:1px solid var(--line)}
.items a{
  display:block; padding:10px 12px; margin:0 -12px; text-decoration:none; border-radius:6px; color:var(--text)
}
.items a[aria-current]{background:var(--quiet)}
.items a:hover{background:var(--quiet)}
.items .name{color:var(--accent);font-weight:600}
.items .badges{margin:0 0 12px}
.search{display:flex;gap:8px;align-items:flex-end;margin:4px 0 16px}
.search input{margin:0;min-width:0;flex:1}
.search button{flex:none}
@media (max-width:60rem){
  .split,.split.talks{grid-template-columns:minmax(0,1fr);gap:8px}
}
@media (max-width:30rem){
  .card{padding:16px;margin-left:-8px;margin-right:-8px}
  .facts{grid-template-columns:minmax(0,1fr);gap:0}
  .facts dd{margin:0 0 12px}
  .facts .facts{grid-template-columns:fit-content(40%) minmax(0,1fr);gap:4px 12px}
  .facts .facts dd{margin:0}
  h1{font-size:1.25rem}
  .bar{
    position:sticky; bottom:0; background:var(--surface); padding:12px 16px; margin:16px -16px 0;
    border-top:1px solid var(--line)
  }
  .bar>*{flex:1;padding:8px 12px}
  .top nav{order:1;flex-basis:100%;flex-wrap:nowrap;overflow-x:auto}
  .top nav a{white-space:nowrap}
  html{scroll-padding-bottom:6rem}
  .cards thead{display:none}
  .cards,.cards tbody,.cards tr,.cards td,.cards th{display:block}
  .cards tr{border-bottom:1px solid var(--line);padding:8px 0}
  .cards td,.cards th{border:0;padding:2px 0;text-align:left}
  .cards [data-label]::before{content:attr(data-label) " ";color:var(--muted)}
}
@media (forced-colors:active){
  .badge,.said,.block,.turn.you p{border:1px solid CanvasText}
  .primary{border-width:3px}
  .top nav a[aria-current],.items a[aria-current]{text-decoration:underline;font-weight:700}
  .brand::before{forced-color-adjust:none}
}
@media print{
  .skip,.top nav,.top .account,.foot,.actions,.search,.filters,pre+button,td form{display:none}
  body{background:#fff}
  .card{border:0;padding:0;margin:0 0 16px}
  .block{max-height:none}
  thead th{position:static}
  tr,.badge,figure{break-inside:avoid}
}
@media (prefers-reduced-motion:no-preference){
  button,.button{transition:filter .1s}
}
""".strip()
