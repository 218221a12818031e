// 25 calls of the package openai against a server that run.sh has started: node calls.mjs URL KEY
import assert from 'node:assert/strict'
import OpenAI from 'openai'

const [baseURL, apiKey] = process.argv.slice(2)
const client = new OpenAI({baseURL, apiKey, maxRetries: 0})
const model = 'talk'
const said = 'Hello! One two three, four five six.'
const hello = [{role: 'user', content: 'Hello'}]
const warm = [{role: 'user', content: 'Is it warm in Paris?'}]
const tools = [{type: 'function', function: {name: 'weather',
	parameters: {type: 'object', properties: {city: {type: 'string'}}}}}]
const greedy = {model, messages: hello, temperature: 0}
let n = 0

async function call(what, f) {
	await f()
	console.log(`${++n} ${what}`)
}

async function refused(kind, status, f, param) {
	const error = await f().then(() => assert.fail('it is not refused'), e => e)
	assert(error instanceof kind, `${error}`)
	assert.equal(error.status, status)
	assert.ok(error.message && error.requestID)
	if (param) assert.equal(error.param, param)
	return error
}

async function joined(stream) {
	let text = '', finish, usage, chunks = 0
	const calls = []
	for await (const chunk of stream) {
		chunks++
		const c = chunk.choices[0]
		text += c?.delta?.content ?? c?.text ?? ''
		calls.push(...(c?.delta?.tool_calls ?? []))
		finish = c?.finish_reason ?? finish
		usage = chunk.usage ?? usage
	}
	return {text, finish, usage, calls, chunks}
}

await call('models.list', async () => {
	const list = await client.models.list()
	assert.deepEqual(list.data.map(m => m.id), [model])
})
await call('models.retrieve', async () => assert.equal((await client.models.retrieve(model)).object, 'model'))
await call('a model that is not there', () => refused(OpenAI.NotFoundError, 404, () => client.models.retrieve('none')))
await call('an answer', async () => {
	const a = await client.chat.completions.create(greedy)
	assert.equal(a.choices[0].message.content, said)
	assert.equal(a.choices[0].message.role, 'assistant')
	assert.equal(a.choices[0].finish_reason, 'stop')
	assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + a.usage.completion_tokens)
	assert.ok(a._request_id)
})
await call('streamed', async () => {
	const a = await joined(await client.chat.completions.create({...greedy, stream: true}))
	assert.deepEqual([a.text, a.finish, a.usage], [said, 'stop', undefined])
	assert.ok(a.chunks > 5)
})
await call('streamed, with usage', async () => {
	const a = await joined(await client.chat.completions.create(
		{...greedy, stream: true, stream_options: {include_usage: true}}))
	assert.equal(a.text, said)
	assert.ok(a.usage.completion_tokens > 5)
})
await call('the stream helper', async () => {
	const stream = client.chat.completions.stream(greedy)
	assert.equal(await stream.finalContent(), said)
})
await call('max_completion_tokens', async () => {
	const a = await client.chat.completions.create({...greedy, max_completion_tokens: 3})
	assert.equal(a.choices[0].finish_reason, 'length')
	assert.equal(a.usage.completion_tokens, 3)
	assert.ok(said.startsWith(a.choices[0].message.content))
})
await call('stop', async () => {
	const a = await client.chat.completions.create({...greedy, stop: ' three'})
	assert.equal(a.choices[0].message.content, 'Hello! One two')
	assert.equal(a.choices[0].finish_reason, 'stop')
})
await call('stop, streamed, of several', async () => {
	const a = await joined(await client.chat.completions.create({...greedy, stop: ['never', 'two three'], stream: true}))
	assert.deepEqual([a.text, a.finish], ['Hello! One ', 'stop'])
})
await call('the seed decides', async () => {
	const ask = seed => client.chat.completions.create({...greedy, temperature: 9, top_p: 1, seed, max_tokens: 12})
	const [a, b, c] = (await Promise.all([ask(1), ask(1), ask(2)])).map(a => a.choices[0].message.content)
	assert.equal(a, b)
	assert.notEqual(a, c)
})
await call('several choices', async () => {
	const a = await client.chat.completions.create({...greedy, temperature: 9, top_p: 1, n: 3, max_tokens: 8})
	assert.deepEqual(a.choices.map(c => c.index), [0, 1, 2])
})
await call('logprobs', async () => {
	const a = await client.chat.completions.create({...greedy, logprobs: true, top_logprobs: 2})
	const tokens = a.choices[0].logprobs.content
	assert.equal(tokens.map(t => t.token).join('').trimStart(), said)
	assert.ok(tokens.every(t => t.logprob <= 0 && t.top_logprobs.length === 2 && t.top_logprobs[0].token === t.token))
})
await call('a call of a tool', async () => {
	const a = await client.chat.completions.create({...greedy, messages: warm, tools})
	assert.equal(a.choices[0].finish_reason, 'tool_calls')
	const [f] = a.choices[0].message.tool_calls
	assert.equal(f.function.name, 'weather')
	assert.deepEqual(JSON.parse(f.function.arguments), {city: 'Paris'})
})
await call('a call of a tool, streamed', async () => {
	const a = await joined(await client.chat.completions.create({...greedy, messages: warm, tools, stream: true}))
	assert.deepEqual([a.text, a.finish, a.calls.length], ['', 'tool_calls', 1])
	assert.deepEqual(JSON.parse(a.calls[0].function.arguments), {city: 'Paris'})
})
await call('runTools, which calls it and goes on', async () => {
	const runner = client.chat.completions.runTools({...greedy, messages: warm, tools: [{type: 'function',
		function: {...tools[0].function, parse: JSON.parse, function: ({city}) => city === 'Paris' ? 'warm' : 'cold'}}]})
	assert.equal(await runner.finalContent(), 'It is warm.')
})
await call('a tool that is forced', () => refused(OpenAI.BadRequestError, 400, () => client.chat.completions.create(
	{...greedy, tools, tool_choice: 'required'}), 'tool_choice'))
await call('a form that is not there', () => refused(OpenAI.BadRequestError, 400, () => client.chat.completions.create(
	{...greedy, response_format: {type: 'json_object'}}), 'response_format'))
await call('a temperature that makes no sense', () => refused(OpenAI.BadRequestError, 400,
	() => client.chat.completions.create({...greedy, temperature: -1}), 'temperature'))
await call('a conversation that is too long', async () => {
	const long = [{role: 'user', content: 'Hello '.repeat(2000)}]
	const e = await refused(OpenAI.BadRequestError, 400, () => client.chat.completions.create({...greedy, messages: long}))
	assert.equal(e.code, 'context_length_exceeded')
})
await call('a model that is not there', () => refused(OpenAI.NotFoundError, 404,
	() => client.chat.completions.create({...greedy, model: 'none'}), 'model'))
await call('a wrong key', async () => {
	const other = new OpenAI({baseURL, apiKey: 'wrong', maxRetries: 0})
	const e = await refused(OpenAI.AuthenticationError, 401, () => other.chat.completions.create(greedy))
	assert.equal(e.code, 'invalid_api_key')
})
await call('who hangs up ends the stream', async () => {
	const stream = await client.chat.completions.create({...greedy, temperature: 9, top_p: 1, stream: true})
	let chunks = 0
	for await (const _ of stream) if (++chunks === 2) break
	assert.ok(stream.controller.signal.aborted)
	assert.equal((await client.chat.completions.create(greedy)).choices[0].message.content, said)
})
await call('completions, of two prompts', async () => {
	const a = await client.completions.create(
		{model, prompt: ['<|user|>Hello</s><|assistant|>', 'Once'], max_tokens: 64, temperature: 0, logprobs: 1})
	assert.equal(a.choices[0].text.trimStart(), said)
	assert.deepEqual(a.choices.map(c => c.index), [0, 1])
	assert.equal(a.choices[0].logprobs.tokens.length, a.choices[0].logprobs.token_logprobs.length)
})
await call('completions, streamed, with echo', async () => {
	const a = await joined(await client.completions.create(
		{model, prompt: 'Once', max_tokens: 5, temperature: 0, echo: true, stream: true}))
	assert.ok(a.text.startsWith('Once'))
	assert.equal(a.finish, 'length')
})
assert.equal(n, 25)
