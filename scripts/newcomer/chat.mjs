// Talks with a GGUF model in llama.cpp, through node-llama-cpp, by the chat template that is in the file:
//
//	node chat.mjs NODE_MODULES MODEL.gguf QUESTION...
import {pathToFileURL} from "url";
import path from "path";

const [modules, file, ...questions] = process.argv.slice(2);
const {getLlama, LlamaChatSession, JinjaTemplateChatWrapper} = await import(pathToFileURL(path.resolve(modules, "node-llama-cpp/dist/index.js")));
const llama = await getLlama({build: "never", gpu: false, logLevel: "error", maxThreads: 2});
const model = await llama.loadModel({modelPath: path.resolve(file), gpuLayers: 0});
const {chat_template: template} = model.fileInfo.metadata.tokenizer;
for (const question of questions) {
    const context = await model.createContext({contextSize: 256});
    const chat = new LlamaChatSession({contextSequence: context.getSequence(), systemPrompt: "",
        chatWrapper: new JinjaTemplateChatWrapper({template})});
    console.log(`> ${question}\n${await chat.prompt(question, {temperature: 0, maxTokens: 60})}`);
    await context.dispose();
}
process.exit(0);
