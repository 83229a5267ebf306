// Before the first paint: the theme that was chosen here, else the one of the system.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("doxa-theme"); } catch { /* storage is switched off */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
