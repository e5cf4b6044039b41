// `import instructions from "../instructions.md"`: a Cloudflare Worker's bundler gives the text; Node has to be told.
import fs from "node:fs";
import { isMainThread } from "node:worker_threads";
import { register } from "node:module";
import { fileURLToPath } from "node:url";

export async function load(url, context, next) {
  const path = url.split("?")[0];
  if (!path.endsWith(".md")) return next(url, context);
  return { format: "module", shortCircuit: true, source: "export default " + JSON.stringify(fs.readFileSync(fileURLToPath(path), "utf8")) };
}

if (isMainThread) register(import.meta.url);
