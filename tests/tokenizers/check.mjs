// check.mjs MODULES DIR TEXTS EXPECTED: how many of the texts of a folder of fixtures the tokenizer in DIR, read
// by the npm package @huggingface/tokenizers under MODULES, gives the expected ids. Exits with 1 if not all.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [modules, dir, textsFile, expectedFile] = process.argv.slice(2);
const load = (path) => JSON.parse(readFileSync(path, "utf8"));
const url = pathToFileURL(`${modules}/@huggingface/tokenizers/dist/tokenizers.mjs`);
const { Tokenizer } = await import(url);
const tokenizer = new Tokenizer(load(`${dir}/tokenizer.json`), load(`${dir}/tokenizer_config.json`));
const texts = load(textsFile);
let good = 0;
const cases = load(expectedFile).cases;
for (const { id, ids } of cases) {
  const got = tokenizer.encode(texts[id].text, { add_special_tokens: false }).ids;
  if (JSON.stringify(got) === JSON.stringify(ids)) good++;
  else console.log(`# case ${id} differs: ${JSON.stringify(got)}`);
}
console.log(`# ${good} of ${cases.length}`);
process.exit(good === cases.length ? 0 : 1);
