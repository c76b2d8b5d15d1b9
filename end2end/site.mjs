// Finishes the site that wasm-bindgen has begun: optimises the WebAssembly, minifies the script, bundles the style sheet,
// and compresses everything once, so that the server never has to.
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const site = process.argv[2];
const pkg = join(site, "pkg");
const bin = (name) => join(here, "node_modules", ".bin", name);
const run = (name, ...args) => execFileSync(bin(name), args, { stdio: "inherit" });

// No feature flags: --all-features makes modules that browsers refuse.
const wasm = join(pkg, "app_bg.wasm");
run("wasm-opt", "-Oz", wasm, "-o", `${wasm}.small`);
renameSync(`${wasm}.small`, wasm);

const script = join(pkg, "app.js");
run("esbuild", script, "--minify", "--format=esm", `--outfile=${script}`, "--allow-overwrite", "--log-level=warning");
run("esbuild", join(here, "../style/main.css"), "--bundle", "--minify", `--outfile=${join(pkg, "app.css")}`, "--log-level=warning");
copyFileSync(join(here, "../style/favicon.svg"), join(site, "favicon.svg"));

const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
// The script last: make takes its compressed form for the sign that all is done.
const files = readdirSync(pkg).filter((name) => /\.(wasm|css|js)$/.test(name)).sort((a, b) => a.endsWith(".js") - b.endsWith(".js"));
for (const name of files) {
  const bytes = readFileSync(join(pkg, name));
  writeFileSync(join(pkg, `${name}.gz`), gzipSync(bytes, { level: 9 }));
  const small = brotliCompressSync(bytes, brotli);
  writeFileSync(join(pkg, `${name}.br`), small);
  console.log(`${name}: ${bytes.length} bytes, ${small.length} with brotli`);
}

// What the issue promises to people on slow lines.
// Lists that follow the record are the latest to have made it grow; it is to shrink, not to grow.
const limit = 372_000;
const size = readFileSync(`${wasm}.br`).length;
if (size > limit) {
  console.error(`app_bg.wasm has ${size} bytes with brotli; the limit is ${limit}.`);
  process.exit(1);
}
