// Asks llama.cpp, of the package node-llama-cpp, about GGUF files: float32 arithmetic, with a
// cache of float32 and without flash attention. Each line of standard input is a question in
// JSON, each line of standard output its answer:
//   {"file", "adapter", "ids", "scale"}  -> {"logits": [[likeliest token, its logit], ...]}, one for each id
//   {"file", "text", "tokens"}           -> {"prompt": [...], "ids": [...]}: what greedy decoding makes of a text
//   {"file", "split": [text, ...]}       -> {"split": [[id, ...], ...]}: texts without special tokens
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.argv[2] + "/");
const { getLlama } = await import(pathToFileURL(require.resolve("node-llama-cpp")));
const llama = await getLlama({ build: "never", gpu: false, logLevel: "error", maxThreads: 1 });

async function context(model, size, adapter) {
    const options = { contextSize: size, batchSize: size, sequences: 1, threads: 1, flashAttention: false,
        experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32" };
    if (adapter) options.lora = { adapters: [{ filePath: adapter, scale: 1 }] };
    return (await model.createContext(options))._ctx;
}

// read gives ids to the model at a position, and returns where the logits of those wanted are.
async function read(ctx, at, ids, wanted) {
    ctx.initBatch(ids.length);
    const where = ctx.addToBatch(0, at, Uint32Array.from(ids), Uint32Array.from(wanted));
    await ctx.decodeBatch();
    return Array.from(where);
}

function sampler(model) {
    const s = new llama._bindings.AddonSampler(model._model);
    s.applyConfig({ temperature: 0 });
    return s;
}

async function logits(model, q) {
    const ctx = await context(model, q.ids.length, q.adapter), s = sampler(model), out = [];
    for (const at of await read(ctx, 0, q.ids, [...q.ids.keys()])) {
        const [id, , , all] = await ctx.sampleToken(at, s, false, false, true);
        const i = all.findIndex((v, i) => i % 2 === 0 && v === id);
        out.push([id, all[i + 1]]);
    }
    return { logits: out };
}

async function text(model, q) {
    let prompt = Array.from(model._model.tokenize(q.text, false));
    if (model.tokens.shouldPrependBosToken && prompt[0] !== model.tokens.bos) prompt = [model.tokens.bos, ...prompt];
    const ctx = await context(model, prompt.length + q.tokens + 1), s = sampler(model), ids = [];
    for (let next = prompt, at = 0; ids.length < q.tokens;) {
        const [where] = await read(ctx, at, next, [next.length - 1]);
        at += next.length;
        const id = await ctx.sampleToken(where, s);
        if (id === -1 || model.isEogToken(id)) break;
        ids.push(id);
        next = [id];
    }
    return { prompt, ids };
}

let last = {};
// load keeps the last model; disposing of one here can wait forever.
async function load(file, vocabOnly) {
    if (last.file !== file) last = { file, model: await llama.loadModel({ modelPath: file, gpuLayers: 0, vocabOnly }) };
    return last.model;
}

for await (const line of createInterface({ input: process.stdin })) {
    const q = JSON.parse(line);
    try {
        const model = await load(q.file, q.split !== undefined);
        const answer = q.split ? { split: q.split.map(t => Array.from(model._model.tokenize(t, false))) }
            : q.ids ? await logits(model, q) : await text(model, q);
        console.log(JSON.stringify(answer));
    } catch (e) {
        console.log(JSON.stringify({ error: String(e) }));
    }
}
process.exit(0);
