// The parts that views are made of: tables, curves, contents, dialogs.

import { useContext, useEffect, useRef, useState } from "preact/hooks";
import {
    About, Surroundings, act, bytes, count, html, pretty, rate, short, useRead, written,
} from "./lib.mjs";

export function Trouble({ problem }) {
    if (!problem) return null;
    return html`<div class="trouble" role="alert">
        <strong>${problem.message}</strong>
        ${problem.hint && html`<span> ${problem.hint}</span>`}
        ${problem.sqlstate && html` <code>${problem.sqlstate}</code>`}
    </div>`;
}

// What a view shows of a document: its trouble, that it is on its way, or itself.
export function Await({ of, children }) {
    return html`
        <${Trouble} problem=${of.problem} />
        ${of.data ? children(of.data) : of.problem ? null : html`<p class="quiet">…</p>`}
    `;
}

export function Section({ title, actions, children }) {
    return html`<section>
        <div class="heading"><h2>${title}</h2><div class="actions">${actions}</div></div>
        ${children}
    </section>`;
}

// Why an act cannot be done here; empty: it can, or the database says why not.
function refusal(about, asked) {
    if (!about) return "asks what the role may do";
    const need = about.acts[asked.act];
    if (!need) return about.refused;
    const of = { ...asked.given?.({}), ...asked };
    if (of.act === "delete_worker" && about.roles && !about.roles.includes(of.role)) {
        return about.refused;
    }
    const own = ["topic", "queue"].map((kind) => [need[kind], about.restricted[kind]?.[of[kind]]])
        .filter(([access, had]) => access && had);
    const may = own.every(([access, had]) => had.includes(access))
        || own.some(([, had]) => had.includes("admin"));
    return may ? "" : about.refused;
}

// asked: what the dialog asks, see Asking; its topic or queue may stand beside what is given.
export function Act({ asked, children, disabled }) {
    const { ask } = useContext(Surroundings);
    const why = refusal(useContext(About), asked);
    return html`<button type="button" class=${asked.danger ? "danger" : ""} data-act=${asked.act}
        title=${why} disabled=${disabled || why !== ""} onClick=${() => ask(asked)}>${children}</button>`;
}

const AT_ONCE = 200;

const keyed = (value) => (value == null ? "" : typeof value === "boolean" ? Number(value) : value);

function compare(left, right) {
    const [a, b] = [keyed(left), keyed(right)];
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (a === "" || b === "") return (a === "" ? 0 : 1) - (b === "" ? 0 : 1);
    return String(a).localeCompare(String(b), "en", { numeric: true });
}

const titled = (column) => column.title ?? column.name.replaceAll("_", " ");

// columns: name, title, value of a row (to sort by, and to show), cell (how it is shown), kind, spare
// (left out while no row has a value). One without a title is not sorted by; its name says what is
// in it.
export function Table({ label, columns: given, rows, id, nothing = "nothing here", filter = false }) {
    const [order, setOrder] = useState(null);
    // filter: true, or the text by which it is filtered at first
    const [wanted, setWanted] = useState(filter === true ? "" : filter || "");
    const [most, setMost] = useState(AT_ONCE);
    const value = (column, row) => (column.value ? column.value(row) : row[column.name]);
    const columns = given.filter((one) => !one.spare || rows.some((row) => value(one, row) != null));
    let shown = rows;
    if (wanted) {
        const text = wanted.toLowerCase();
        shown = shown.filter((row) =>
            columns.some((one) => String(value(one, row) ?? "").toLowerCase().includes(text)),
        );
    }
    if (order) {
        const column = columns.find((one) => one.name === order.name);
        shown = [...shown].sort((a, b) => compare(value(column, a), value(column, b)));
        if (order.down) shown.reverse();
    }
    const turn = (column) =>
        setOrder((old) => ({
            name: column.name,
            down: old?.name === column.name ? !old.down : column.kind === "number",
        }));
    const sorted = (column) =>
        order?.name !== column.name ? "none" : order.down ? "descending" : "ascending";
    return html`
        ${filter && (rows.length > 5 || wanted) && html`<input type="search" class="filter" value=${wanted}
            placeholder="filter" aria-label=${`filter ${label}`}
            onInput=${(event) => setWanted(event.target.value)} />`}
        ${shown.length === 0 ? html`<p class="quiet">${wanted ? "no match" : nothing}</p>` : html`
        <div class="scroll" role="region" aria-label=${label} tabindex="0">
        <table>
            <thead><tr>${columns.map((column) => html`
                <th scope="col" class=${column.kind} aria-sort=${sorted(column)}>
                    ${column.title === "" ? html`<span class="hidden">${column.name}</span>` : html`
                    <button type="button" onClick=${() => turn(column)}>${titled(column)}</button>`}
                </th>`)}
            </tr></thead>
            <tbody>${shown.slice(0, most).map((row) => html`
                <tr key=${id(row)}>${columns.map((column) => html`
                    <td class=${column.kind} data-title=${titled(column)}>${
                        column.cell
                            ? column.cell(row)
                            : column.kind === "number" ? count(value(column, row)) : value(column, row)
                    }</td>`)}
                </tr>`)}
            </tbody>
        </table>
        </div>`}
        ${shown.length > most && html`<p class="quiet">
            ${count(most)} of ${count(shown.length)} are shown.
            <button type="button" onClick=${() => setMost(most + 5 * AT_ONCE)}>Show more</button>
        </p>`}`;
}

export function Settings({ of, without = [] }) {
    const names = Object.keys(of).filter((name) => !without.includes(name));
    return html`<dl class="settings">${names.map((name) => html`
        <div key=${name}><dt>${name.replaceAll("_", " ")}</dt><dd>${written(of[name])}</dd></div>`)}
    </dl>`;
}

export function Figures({ children }) {
    return html`<dl class="figures">${children}</dl>`;
}

export function Figure({ name, value, unit, state, href }) {
    const shown = value == null || value === "" ? "–" : value;
    return html`<div class=${state || ""}>
        <dt>${href ? html`<a href=${href}>${name}</a>` : name}</dt>
        <dd>${shown}${unit && value != null && value !== "" && html`<small> ${unit}</small>`}</dd>
    </div>`;
}

export function Badge({ kind = "", children }) {
    return html`<span class=${`badge ${kind}`}>${children}</span>`;
}

// ---------------------------------------------------------------- contents

export function Preview({ of }) {
    if (of.kind === "none") return html`<span class="quiet">none</span>`;
    return html`<code class="preview">${of.text}${of.cut ? "…" : ""}</code>`;
}

// The column of a subscription's filter.
export const FILTER = {
    name: "filter", kind: "content",
    cell: (one) => one.filter && html`<code class="preview">${one.filter}</code>`,
};

const LONG = 300;

// A text of which a table shows the last line, as that of a traceback, or the beginning; the rest
// can be unfolded.
export function Folded({ text, beginning = false }) {
    if (text == null || (text.length <= LONG && !text.includes("\n"))) return text;
    const last = beginning ? text : text.trimEnd().split("\n").at(-1);
    const cut = last.length > LONG ? `${last.slice(0, LONG)}…` : last;
    return html`<details><summary><span class="lines two">${cut}</span></summary>
        <pre>${text}</pre></details>`;
}

export function Content({ of }) {
    if (of.kind === "none") return html`<p class="quiet">It has no content (any more).</p>`;
    const kinds = { json: "JSON", text: "raw bytes, which are a text", bytes: "raw bytes" };
    return html`
        <p class="quiet">${kinds[of.kind]}, ${bytes(of.size)}${of.cut ? "; this is its beginning" : ""}</p>
        <pre tabindex="0">${of.kind === "json" && !of.cut ? pretty(of.text) : of.text}</pre>`;
}

// ---------------------------------------------------------------- curves

const COLOURS = ["--curve-1", "--curve-2", "--curve-3", "--curve-4", "--curve-5", "--curve-6"];

const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

function newest(plot) {
    if (plot.cursor.idx == null) plot.setLegend({ idx: plot.data[0].length - 1 });
}

// series: name, values, shown (how a value is written). times are in seconds.
export function Curves({ label, times, series }) {
    const place = useRef(null);
    const plot = useRef(null);
    const { theme } = useContext(Surroundings);
    const names = series.map((one) => one.name).join("\n");
    const data = [times, ...series.map((one) => one.values)];
    useEffect(() => {
        const box = place.current;
        const style = getComputedStyle(box);
        const colour = (name) => style.getPropertyValue(name).trim();
        const grid = { stroke: colour("--line"), width: 1 };
        const axis = { stroke: colour("--quiet"), grid, ticks: grid, font: "12px system-ui" };
        plot.current = new uPlot({
            width: box.clientWidth || 300,
            height: 180,
            series: [
                { label: "at", value: (_, at) => (at == null ? "" : clock(at)) },
                ...series.map((one, number) => ({
                    label: one.name,
                    stroke: colour(COLOURS[number % COLOURS.length]),
                    width: 1.5,
                    points: { show: times.length < 3 },
                    value: (_, value) => (value == null ? "–" : (one.shown || rate)(value)),
                })),
            ],
            axes: [{ ...axis, space: 80, values: (_, all) => all.map(clock) }, { ...axis, size: 60, values: (_, all) => all.map(short) }],
            scales: {
                // of a single look the range would be a day
                x: { range: (of, low, high) => (of.data[0].length < 2 ? [low - 10, low] : [low, high]) },
                y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] },
            },
            cursor: { drag: { x: false, y: false } },
            // the newest figures, unless somebody points at others
            hooks: { setCursor: [newest] },
        }, data, box);
        newest(plot.current);
        const watch = new ResizeObserver(() => {
            plot.current?.setSize({ width: box.clientWidth, height: 180 });
        });
        watch.observe(box);
        return () => {
            watch.disconnect();
            plot.current.destroy();
            plot.current = null;
        };
    }, [names, theme, times.length < 3]);
    useEffect(() => {
        plot.current?.setData(data);
        if (plot.current) newest(plot.current);
    }, [times.at(-1), times.length, names]);
    const last = series.map((one) => {
        const value = one.values.at(-1);
        return `${one.name} ${value == null ? "unknown" : (one.shown || rate)(value)}`;
    });
    return html`<div class="curves" ref=${place} role="img"
        aria-label=${`${label}; now: ${last.join(", ")}`}></div>`;
}

// What the server saw of one thing during the last hour, or since it was started. figures: column, name to show.
export function Past({ label, kind, name, topic, figures }) {
    const seen = useRead("history", { kind, name, topic });
    return html`<${Await} of=${seen}>${(data) => {
        const known = figures.filter(([column]) => data.figures[column]);
        const recent = Date.now() / 1000 - data.began < 3600;
        const since = clock(recent ? data.began : data.times[0]).slice(0, 5);
        if (!known.length) return html`<p class="quiet">Nothing has been seen of it yet.</p>`;
        return html`<${Curves} label=${label} times=${data.times} series=${known.map(
            ([column, shown, how]) => ({ name: shown, values: data.figures[column], shown: how }),
        )} /><p class="quiet">since ${since}${
            recent ? ", when this page was started" : ", the last hour"}</p>`;
    }}<//>`;
}

// ---------------------------------------------------------------- dialogs

function Field({ of, value, required, onChange }) {
    const id = `field-${of.name}`;
    const common = {
        id,
        name: of.name,
        required,
        onInput: (event) => onChange(event.target.value),
        "aria-describedby": of.hint ? `${id}-hint` : undefined,
    };
    let control;
    if (of.kind === "choice") {
        control = html`<select ...${common} value=${value}>${of.choices.map(([key, text]) => html`
            <option value=${key} selected=${key === value}>${text}</option>`)}</select>`;
    } else if (of.kind === "long") {
        control = html`<textarea ...${common} rows="6" spellcheck="false" value=${value}></textarea>`;
    } else {
        control = html`<input ...${common} type="text" value=${value} autocomplete="off"
            inputmode=${of.kind === "number" ? "numeric" : undefined} />`;
    }
    return html`<div class="field">
        <label for=${id}>${of.title}</label>${control}
        ${of.hint && html`<small id=${`${id}-hint`}>${of.hint}</small>`}
    </div>`;
}

// asked: title, text, fields, button, danger, act, given (of what was typed in). A field has name,
// title, kind, value, choices, hint, required and when, of which the last two may ask what was typed.
export function Asking({ asked, onDone, onCancel }) {
    const dialog = useRef(null);
    const first = Object.fromEntries((asked.fields || []).map((one) => [one.name, one.value ?? ""]));
    const [typed, setTyped] = useState(first);
    const [problem, setProblem] = useState(null);
    const [busy, setBusy] = useState(false);
    useEffect(() => {
        dialog.current.showModal();
    }, []);
    const submit = async (event) => {
        event.preventDefault();
        setBusy(true);
        setProblem(null);
        try {
            const { said } = await act(asked.act, asked.given ? asked.given(typed) : typed);
            dialog.current.close();
            onDone(said);
        } catch (found) {
            setProblem(found);
            setBusy(false);
        }
    };
    const fields = (asked.fields || []).filter((one) => !one.when || one.when(typed));
    return html`<dialog ref=${dialog} aria-labelledby="asked" onClose=${onCancel}>
        <form onSubmit=${submit}>
            <h2 id="asked">${asked.title}</h2>
            ${asked.text && html`<p>${asked.text}</p>`}
            ${fields.map((one) => html`<${Field} key=${one.name} of=${one} value=${typed[one.name]}
                required=${typeof one.required === "function" ? one.required(typed) : one.required}
                onChange=${(value) => setTyped((old) => ({ ...old, [one.name]: value }))} />`)}
            <${Trouble} problem=${problem} />
            <div class="buttons">
                <button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
                <button type="submit" class=${asked.danger ? "danger main" : "main"}
                    disabled=${busy} autofocus=${!fields.length}>${asked.button}</button>
            </div>
        </form>
    </dialog>`;
}
