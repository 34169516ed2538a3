// Before anything is drawn: the colours that were chosen here, else those of the system.
{
    const chosen = localStorage.getItem("pgq.theme");
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme =
        chosen === "light" || chosen === "dark" ? chosen : dark ? "dark" : "light";
}
