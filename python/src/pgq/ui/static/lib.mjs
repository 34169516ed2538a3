// What all views share: asking the server, acting, addresses, and how values are written.

import { createContext, h } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import htm from "htm";

export const html = htm.bind(h);

// ---------------------------------------------------------------- the token

const TOKEN = "pgq.token";

// It comes in the fragment, which browsers send to nobody, and is gone from the address at once.
export function takeToken() {
    const found = /^#token=([\w-]+)$/.exec(location.hash);
    if (!found) return;
    localStorage.setItem(TOKEN, found[1]);
    history.replaceState(null, "", "#/");
}

export const setToken = (text) => localStorage.setItem(TOKEN, text.replace(/^.*#token=/, "").trim());

// ---------------------------------------------------------------- asking and acting

export class Problem extends Error {
    constructor(status, told) {
        super(told.message || `the server answered ${status}`);
        this.status = status;
        this.hint = told.hint;
        this.sqlstate = told.sqlstate;
        this.login = told.login;
    }
}

async function request(path, options) {
    const token = localStorage.getItem(TOKEN) || "";
    let response;
    try {
        response = await fetch(path, {
            ...options,
            headers: { ...options.headers, Authorization: `Bearer ${token}` },
        });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Problem(0, { message: "pgq ui does not answer: it may have been ended" });
    }
    const told = await response.json().catch((error) => {
        // a request that was given up while its answer came in has no answer
        if (error.name === "AbortError") throw error;
        if (response.ok) throw new Problem(0, { message: "the answer of pgq ui broke off" });
        return {};
    });
    if (!response.ok) throw new Problem(response.status, told);
    return told;
}

export function read(name, parameters = {}, signal = undefined) {
    const given = Object.entries(parameters).filter(([, value]) => value != null && value !== "");
    const query = new URLSearchParams(given).toString();
    return request(`api/${name}${query ? `?${query}` : ""}`, { signal });
}

export function act(name, given) {
    return request(`api/act/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(given),
    });
}

// What goes on around the views: the beat at which they ask again, dialogs and notices.
export const Surroundings = createContext(null);

// The document about: the database, and which acts the role may do there; null: not known yet.
export const About = createContext(null);

// A document of the server, asked for again at each beat; what was there stays while it is asked.
export function useRead(name, parameters = {}, { live = true } = {}) {
    const { beat, refused } = useContext(Surroundings);
    const [state, setState] = useState({ data: null, problem: null, key: null });
    const running = useRef(null);
    const key = JSON.stringify([name, parameters]);
    useEffect(() => {
        if (name === null) return undefined;
        const control = new AbortController();
        running.current?.abort();
        running.current = control;
        read(name, parameters, control.signal).then(
            (data) => setState({ data, problem: null, key }),
            (problem) => {
                if (problem.name === "AbortError") return;
                if (problem.status === 401) refused(problem);
                setState((old) => ({ data: old.key === key ? old.data : null, problem, key }));
            },
        );
        return () => control.abort();
    }, [key, live ? beat : beat.forced]);
    return state.key === key ? state : { data: null, problem: null, key };
}

// ---------------------------------------------------------------- addresses

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

// An address with what is asked for there, of which nothing is written that is empty.
export function asking(address, given) {
    const query = `${new URLSearchParams(Object.entries(given).filter(([, value]) => value))}`;
    return query ? `${address}?${query}` : address;
}

// The parts of the address, and what is asked for there.
export function usePlace() {
    const [hash, setHash] = useState(location.hash);
    useEffect(() => {
        const changed = () => setHash(location.hash);
        addEventListener("hashchange", changed);
        return () => removeEventListener("hashchange", changed);
    }, []);
    const [path, query] = hash.replace(/^#\/?/, "").split("?");
    const given = Object.fromEntries(new URLSearchParams(query));
    try {
        return [path.split("/").filter(Boolean).map(decodeURIComponent), given];
    } catch {
        return [[], {}];
    }
}

// ---------------------------------------------------------------- how values are written

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// Whole numbers that are too large for JavaScript come as texts.
export function count(value) {
    if (value == null) return "";
    if (typeof value === "string") return whole.format(BigInt(value));
    return whole.format(value);
}

export const rate = (value) => (value == null ? "" : fine.format(value));

// That of an axis, where there is little room.
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

export const short = (value) => compact.format(value);

export function bytes(value) {
    let size = Number(value);
    for (const unit of ["B", "kB", "MB", "GB"]) {
        if (size < 1024 || unit === "GB") return `${fine.format(size)} ${unit}`;
        size /= 1024;
    }
    return "";
}

export function length(seconds) {
    const left = Math.max(0, Math.round(seconds));
    const parts = [];
    let rest = left;
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
        const number = Math.floor(rest / size);
        rest %= size;
        if (number) parts.push(`${number}${unit}`);
    }
    return parts.slice(0, 2).join(" ") || "0s";
}

const two = (value) => String(value).padStart(2, "0");

export function instant(text) {
    const moment = new Date(text);
    if (Number.isNaN(moment.getTime())) return String(text);
    return (
        `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())} ` +
        `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`
    );
}

export function Ago({ at }) {
    if (at == null) return null;
    const seconds = (Date.now() - new Date(at).getTime()) / 1000;
    const text = seconds < 0 ? `in ${length(-seconds)}` : `${length(seconds)} ago`;
    return html`<time datetime=${at} title=${instant(at)}>${text}</time>`;
}

// A value of a setting, whatever it is.
export function written(value) {
    if (value == null) return "—";
    if (value === true) return "yes";
    if (value === false) return "no";
    if (typeof value === "number") return Number.isInteger(value) ? count(value) : String(value);
    if (typeof value === "object") return JSON.stringify(value);
    return /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value) ? instant(value) : value;
}

// JSON with line breaks. It is not read as values: numbers would lose digits.
export function pretty(text) {
    const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) || [];
    const out = [];
    let depth = 0;
    const line = () => `\n${"  ".repeat(depth)}`;
    tokens.forEach((token, number) => {
        const next = tokens[number + 1];
        if (token === "{" || token === "[") {
            depth += 1;
            out.push(token, next === "}" || next === "]" ? "" : line());
        } else if (token === "}" || token === "]") {
            depth -= 1;
            const before = tokens[number - 1];
            out.push(before === "{" || before === "[" ? "" : line(), token);
        } else if (token === ",") {
            out.push(token, line());
        } else {
            out.push(token === ":" ? ": " : token);
        }
    });
    return out.join("");
}

export function useStored(name, fallback) {
    const [value, setValue] = useState(() => localStorage.getItem(name) ?? fallback);
    const store = useCallback((next) => {
        localStorage.setItem(name, next);
        setValue(next);
    }, [name]);
    return [value, store];
}
