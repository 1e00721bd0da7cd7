// Greedy generation from one exported folder by transformers.js; prints the new token ids, one line.
//
//   node check_onnx_generate.mjs MODULES FOLDER PROMPT TOKENS
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, folder, prompt, tokens] = process.argv.slice(2);
const found = createRequire(path.join(path.resolve(modules), "package.json")).resolve("@huggingface/transformers");
const { AutoModelForCausalLM, AutoTokenizer, env } = await import(pathToFileURL(found));
env.allowRemoteModels = false;
env.localModelPath = path.dirname(path.resolve(folder));

const name = path.basename(folder);
const tokenizer = await AutoTokenizer.from_pretrained(name);
const model = await AutoModelForCausalLM.from_pretrained(name);
const inputs = tokenizer(prompt);
const out = await model.generate({ ...inputs, max_new_tokens: Number(tokens), do_sample: false });
const ids = out.tolist()[0].map(Number);
console.log(ids.slice(inputs.input_ids.dims[1]).join(" "));
