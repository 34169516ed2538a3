// Runs the cases of tests/protocol, whose README has their format: node cases.js FILE.json ...
// Prints each scenario with "ok", or with the step that fails, and ends with the status 1 then.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import pg from "pg";

type Step = {
  listen?: string;
  call?: string;
  with?: { [name: string]: unknown };
  within?: number;
  returns?: unknown[];
  error?: string;
  notified?: string[][];
};
type Variables = Map<string, unknown>;

const JSON_ARGUMENTS = new Set(["details", "headers", "payload", "progress", "result"]);

const valueOf = (value: unknown, known: Variables): unknown =>
  typeof value === "string" && value.startsWith("$") ? known.get(value.slice(1))
    : Array.isArray(value) ? value.map((each) => valueOf(each, known)) : value;

/** Whether an answer is the expected one; takes what it binds into `known`. */
function matches(expected: unknown, answer: any, known: Variables): boolean {
  if (Array.isArray(expected)) {
    return Array.isArray(answer) && answer.length === expected.length
      && expected.every((each, index) => matches(each, answer[index], known));
  }
  if (expected !== null && typeof expected === "object") {
    return answer !== null && typeof answer === "object" && Object.entries(expected)
      .every(([name, each]) => name in answer && matches(each, answer[name], known));
  }
  if (typeof expected === "string" && expected.startsWith("$")) {
    const name = expected.slice(1);
    if (answer == null || name === "any") return answer != null;
    if (!known.has(name)) known.set(name, answer);
    return isDeepStrictEqual(known.get(name), answer);
  }
  return isDeepStrictEqual(expected, answer);
}

async function call(client: pg.Client, step: Step, known: Variables) {
  const given = Object.entries(step.with ?? {});
  const names = given.map(([name], index) => `${name} => $${index + 1}`).join(", ");
  const values = given.map(([name, value]) =>
    JSON_ARGUMENTS.has(name) ? JSON.stringify(value) : valueOf(value, known));
  try {
    const { rows } = await client.query(
      `select to_jsonb(r) as answer from pgq.${step.call}(${names}) as r`, values);
    return { returns: rows.map((row) => row.answer) };
  } catch (error) {
    return { error: (error as pg.DatabaseError).code, message: String(error) };
  }
}

async function run(client: pg.Client, steps: Step[], known: Variables): Promise<string> {
  const heard: string[][] = [];
  client.on("notification", ({ channel, payload }) => heard.push([channel, payload ?? ""]));
  for (const [index, step] of steps.entries()) {
    if (step.listen) {
      await client.query(`listen ${step.listen}`);
      continue;
    }
    const until = performance.now() + 1000 * (step.within ?? (step.notified ? 10 : 0));
    for (;;) {
      // A notification comes with the answer to any statement.
      const answer: { [name: string]: unknown } = step.notified
        ? (await client.query("select"), { notified: heard }) : await call(client, step, known);
      const found = new Map(known);
      const { listen, call: _, with: __, within, ...expected } = { error: undefined, ...step };
      if (Object.entries(expected).every(([name, each]) => matches(each, answer[name], found))) {
        found.forEach((value, name) => known.set(name, value));
        break;
      }
      if (performance.now() >= until) {
        const texts = [expected, answer].map((each) => JSON.stringify(each));
        return `step ${index + 1}: expected ${texts[0]}, got ${texts[1]}`;
      }
    }
  }
  return "ok";
}

for (const file of process.argv.slice(2)) {
  for (const { scenario, steps } of JSON.parse(readFileSync(file, "utf8"))) {
    const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
    await client.connect();
    const found = await run(client, steps, new Map([["queue", `queue-${crypto.randomUUID()}`]]));
    console.log(`${scenario}: ${found}`);
    if (found !== "ok") process.exitCode = 1;
    await client.end();
  }
}
