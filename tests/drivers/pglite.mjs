// Runs SQL on PGlite, PostgreSQL in WebAssembly: an install script, then blocks from standard input,
// as JSON; of psql's commands these may have \gset. Prints what the last block answers.
import { PGlite } from "@electric-sql/pglite";
import { readFileSync } from "node:fs";

const [blocks, script] = JSON.parse(readFileSync(0, "utf8"));
const db = await PGlite.create();
await db.exec(readFileSync(script, "utf8").replace(/^\\.*$/gm, ""));

const variables = {};
const literal = (value) => `'${String(value).replaceAll("'", "''")}'`;
let answer = [];
for (const block of blocks) {
  for (const part of block.split(/(?<=\\gset) *\n/)) {
    const text = part
      .replace(/:'(\w+)'/g, (found, name) => (name in variables ? literal(variables[name]) : found))
      .replace(/(?<!:):(\w+)/g, (found, name) => (name in variables ? variables[name] : found));
    const results = await db.exec(text.replace(/\\gset\s*$/, ""));
    answer = results.at(-1)?.rows ?? [];
    if (text.trimEnd().endsWith("\\gset")) Object.assign(variables, answer[0]);
  }
}
console.log(JSON.stringify(answer));
