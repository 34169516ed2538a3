// The page around the views: navigation, the beat, dialogs and notices.

import { render } from "preact";
import { useCallback, useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
    About, Surroundings, html, link, setToken, takeToken, usePlace, useRead, useStored,
} from "./lib.mjs";
import { Asking } from "./parts.mjs";
import { Walking } from "./many.mjs";
import { Health, Overview } from "./overview.mjs";
import { Group, Groups, Message, Messages, Topic, Topics } from "./topics.mjs";
import { Queue, Queues } from "./queues.mjs";
import { Dead, Errors, Finished, Job, Jobs } from "./jobs.mjs";
import { Access, Schedules, Subscriptions, Workers } from "./others.mjs";

const VIEWS = [
    ["", "Overview", "o"],
    ["topics", "Topics", "t"],
    ["groups", "Groups", "g"],
    ["queues", "Queues", "q"],
    ["subscriptions", "Subscriptions", "s"],
    ["schedules", "Schedules", "c"],
    ["workers", "Workers", "w"],
    ["access", "Access", "a"],
    ["health", "Health", "h"],
];

// The view of an address: parts of it stand for names.
function view([first, ...rest], given) {
    const [name, next, third, fourth] = rest;
    // of another filter nothing is chosen, and it is read from its first page on
    const key = JSON.stringify([name, third, given]);
    switch (first) {
        case undefined: return html`<${Overview} />`;
        case "topics":
            if (name === undefined) return html`<${Topics} />`;
            if (next === undefined) return html`<${Topic} key=${name} topic=${name} />`;
            if (next === "messages" && fourth === undefined) {
                return html`<${Messages} key=${`${name} ${third}`} topic=${name} partition=${third} />`;
            }
            if (next === "messages") {
                return html`<${Message} topic=${name} partition=${third} offset=${fourth} />`;
            }
            break;
        case "groups":
            if (name === undefined) return html`<${Groups} />`;
            if (next !== undefined) {
                return html`<${Group} key=${`${name}\n${next}`} topic=${name} group=${next} />`;
            }
            break;
        case "queues":
            if (name === undefined) return html`<${Queues} />`;
            if (next === undefined) return html`<${Queue} key=${name} queue=${name} />`;
            if (next === "jobs") {
                return html`<${Jobs} key=${key} queue=${name} state=${third} given=${given} />`;
            }
            if (next === "dead") return html`<${Dead} key=${key} queue=${name} given=${given} />`;
            if (next === "errors") return html`<${Errors} key=${name} queue=${name} />`;
            if (next === "finished") {
                return html`<${Finished} key=${name} queue=${name} size=${given.size} />`;
            }
            break;
        case "jobs":
            if (name !== undefined) return html`<${Job} key=${name} job=${name} />`;
            break;
        case "subscriptions": return html`<${Subscriptions} key=${key} only=${given.only} />`;
        case "schedules": return html`<${Schedules} key=${key} only=${given.only} />`;
        case "workers": return html`<${Workers} key=${key} only=${given.only} />`;
        case "access": return html`<${Access} />`;
        case "health": return html`<${Health} />`;
        default:
    }
    return html`<h1>Nothing here</h1><p>There is no such view; <a href="#/">go to the overview</a>.</p>`;
}

const EVERY = [["2", "2 s"], ["5", "5 s"], ["15", "15 s"], ["60", "1 min"], ["0", "paused"]];
const THEMES = [["system", "system"], ["light", "light"], ["dark", "dark"]];

function useBeat(every) {
    const [beat, setBeat] = useState({ count: 0, forced: 0 });
    const now = useCallback(() => {
        setBeat((old) => ({ count: old.count + 1, forced: old.forced + 1 }));
    }, []);
    useEffect(() => {
        const seconds = Number(every);
        if (!seconds) return undefined;
        const timer = setInterval(() => {
            // a page that nobody sees asks for nothing
            if (!document.hidden) setBeat((old) => ({ ...old, count: old.count + 1 }));
        }, seconds * 1000);
        return () => clearInterval(timer);
    }, [every]);
    return [beat, now];
}

function useTheme() {
    const [theme, setTheme] = useStored("pgq.theme", "system");
    const [dark, setDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
    useEffect(() => {
        const media = matchMedia("(prefers-color-scheme: dark)");
        const changed = () => setDark(media.matches);
        media.addEventListener("change", changed);
        return () => media.removeEventListener("change", changed);
    }, []);
    const shown = theme === "system" ? (dark ? "dark" : "light") : theme;
    document.documentElement.dataset.theme = shown;
    return [theme, setTheme, shown];
}

function Choice({ title, value, choices, onChange }) {
    return html`<label>${title} <select onChange=${(event) => onChange(event.target.value)}>
        ${choices.map(([key, text]) => html`
            <option value=${key} selected=${key === value}>${text}</option>`)}
    </select></label>`;
}

function Locked({ problem, onToken }) {
    const [typed, setTyped] = useState("");
    if (problem.login) {
        return html`<main id="main"><h1>pgq</h1><p>${problem.message}.</p>
            <p><button type="button" class="main" onClick=${() => location.reload()}>
                Load this page again</button></p></main>`;
    }
    const submit = (event) => {
        event.preventDefault();
        onToken(typed);
    };
    return html`<main id="main"><h1>pgq</h1>
        <form class="locked" onSubmit=${submit}>
            <p>This page wants the token that <code>pgq ui</code> printed when it was started. Open
                the address that it printed, or paste it here.</p>
            <div class="field"><label for="token">address or token</label>
                <input id="token" type="password" value=${typed} required autofocus
                    onInput=${(event) => setTyped(event.target.value)} /></div>
            <div class="buttons"><button type="submit" class="main">Open</button></div>
        </form></main>`;
}

function Where() {
    const data = useContext(About);
    if (!data) return null;
    return html`<p class="where">database <strong>${data.database}</strong><br />
        role <strong>${data.role}</strong><br />
        pgq ${data.version}, PostgreSQL ${data.server}${" "}
        ${data.standby && html`<br /><strong>a standby: it can only be read</strong>`}${" "}
        ${data.read_only && html`<br /><strong>read-only</strong>`}</p>`;
}

function WithAbout({ children }) {
    const { data } = useRead("about", {}, { live: false });
    return html`<${About.Provider} value=${data}>${children}<//>`;
}

const KEYS = [
    ...VIEWS.map(([, title, key]) => [`g ${key}`, title]),
    ["/", "filter"], ["r", "refresh now"], ["p", "stop or resume refreshing"], ["?", "this help"],
];

function Keys({ onClose }) {
    const dialog = useRef(null);
    useEffect(() => dialog.current.showModal(), []);
    return html`<dialog ref=${dialog} aria-labelledby="keys" onClose=${onClose}>
        <form method="dialog"><h2 id="keys">Keys</h2>
            <dl class="keys">${KEYS.map(([key, text]) => html`
                <div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
            <div class="buttons"><button class="main" autofocus>Close</button></div>
        </form></dialog>`;
}

function useKeys({ onRefresh, onPause, onHelp }) {
    const before = useRef("");
    useEffect(() => {
        const pressed = (event) => {
            // what had the focus in a dialog keeps it for a moment behind the end of the dialog
            const typing = event.target.closest?.("input, textarea, select, dialog[open]");
            if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
            const last = before.current;
            before.current = event.key;
            const found = last === "g" && VIEWS.find(([, , key]) => key === event.key);
            if (found) {
                before.current = "";
                location.hash = link(...[found[0]].filter(Boolean));
            } else if (event.key === "/") {
                const filter = document.querySelector("input[type=search]");
                if (!filter) return;
                filter.focus();
            } else if (event.key === "r") onRefresh();
            else if (event.key === "p") onPause();
            else if (event.key === "?") onHelp();
            else return;
            event.preventDefault();
        };
        addEventListener("keydown", pressed);
        return () => removeEventListener("keydown", pressed);
    }, [onRefresh, onPause, onHelp]);
}

function App() {
    const [place, given] = usePlace();
    const [every, setEvery] = useStored("pgq.every", "5");
    const [beat, now] = useBeat(every);
    const [choice, setChoice, theme] = useTheme();
    const [locked, setLocked] = useState(null);
    const [asked, setAsked] = useState(null);
    const ask = useCallback((one) => setAsked({ ...one, time: performance.now() }), []);
    // a dialog tells of its end a moment later, when the next one may be there
    const forget = (one) => setAsked((now) => (now === one ? null : now));
    const [said, setSaid] = useState("");
    const [help, setHelp] = useState(false);
    const main = useRef(null);
    const refused = useCallback((problem) => setLocked(problem), []);
    const around = useMemo(
        () => ({ beat, ask, theme, refused }), [beat, theme, refused],
    );
    const pause = useCallback(() => setEvery(every === "0" ? "5" : "0"), [every, setEvery]);
    const show = useCallback(() => setHelp(true), []);
    useKeys({ onRefresh: now, onPause: pause, onHelp: show });
    const address = place.join("/");
    useEffect(() => {
        // another view is read from its beginning, also by those who cannot see that it is another
        document.title = `pgq: ${place.length ? place.join(" ") : "overview"}`;
        if (document.activeElement !== document.body) main.current?.focus();
        for (const one of document.querySelectorAll("nav [aria-current]")) {
            one.scrollIntoView({ block: "nearest", inline: "nearest" });
        }
        scrollTo(0, 0);
    }, [address]);
    useEffect(() => {
        if (!said) return undefined;
        const timer = setTimeout(() => setSaid(""), 8000);
        return () => clearTimeout(timer);
    }, [said]);
    if (locked) {
        return html`<${Locked} problem=${locked} onToken=${(text) => {
            setToken(text);
            setLocked(null);
            now();
        }} />`;
    }
    return html`<${Surroundings.Provider} value=${around}><${WithAbout}>
        <a class="skip" href="#main" onClick=${(event) => {
            event.preventDefault();
            main.current.focus();
        }}>Skip to the content</a>
        <header>
            <a class="name" href="#/">pgq</a>
            <nav aria-label="views">${VIEWS.map(([path, title]) => html`
                <a href=${link(...[path].filter(Boolean))}
                    aria-current=${(place[0] ?? "") === path ? "page" : undefined}>${title}</a>`)}
            </nav>
            <${Where} />
            <div class="controls">
                <${Choice} title="refresh" value=${every} choices=${EVERY} onChange=${setEvery} />
                <${Choice} title="colours" value=${choice} choices=${THEMES} onChange=${setChoice} />
                <button type="button" onClick=${show}>Keys</button>
            </div>
        </header>
        <main id="main" tabindex="-1" ref=${main}>${view(place, given)}</main>
        <div class="notice" role="status" aria-live="polite">${said}</div>
        ${asked && html`<${asked.walk ? Walking : Asking} key=${asked.time} asked=${asked}
            onCancel=${() => forget(asked)} onDone=${(text) => {
                asked.done?.();
                setSaid(text);
                forget(asked);
                now();
            }} />`}
        ${help && html`<${Keys} onClose=${() => setHelp(false)} />`}
    <//><//>`;
}

takeToken();
addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) {
        takeToken();
        location.reload();
    }
});
render(html`<${App} />`, document.body);
