import test from 'ava';
import OpenAI, { BadRequestError, NotFoundError } from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type ChatScene, createScene } from './chat-scene.ts';

const platform = usePlatform(test, { shared: true });

let scene: ChatScene;

test.before('a project has three providers', async () => {
  scene = await createScene(platform());
});
test.after.always('they are gone', () => scene.upstream.close());

const client = (): OpenAI => new OpenAI({ apiKey: scene.project.key, baseURL: `${platform().base}/v1` });

const create = (model: string, input: number[] | number[][]) =>
  client().embeddings.create({ model, input, encoding_format: 'float' });

const user = (content: string): ChatCompletionMessageParam[] => [{ role: 'user', content }];

test('what only OpenAI’s dialect has a word for goes on as it is, and is refused for the others', async (t) => {
  const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } } as const;
  const called = { name: 'f', arguments: '{}' };
  const requested: readonly { messages: ChatCompletionMessageParam[]; n?: number }[] = [
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, audio] }] },
    {
      messages: [
        { role: 'assistant', function_call: called, content: null },
        { role: 'function', name: 'f', content: '1' },
      ],
    },
    { messages: user('hi'), n: 2 },
  ];
  for (const body of requested) {
    const name = uniqueName('foreign');
    await client().chat.completions.create({ model: `openai/${name}`, ...body });
    const request = scene.upstream.requests.find((one) => one.model === name);
    t.deepEqual(request?.body.messages, body.messages);
    t.is(request?.body.n, body.n);
    t.false('onlyOpenAi' in (request?.body ?? {}));
    for (const provider of ['anthropic', 'google']) {
      const error = await t.throwsAsync(
        () =>
          client()
            .chat.completions.create({ model: `${provider}/${name}`, ...body })
            .asResponse(),
        {
          instanceOf: BadRequestError,
        },
      );
      t.is(error.code, 'not_supported');
    }
    t.is(scene.upstream.requests.filter((one) => one.model === name).length, 1);
  }
});

test('numbers of tokens are embedded by those who speak OpenAI’s dialect', async (t) => {
  scene.upstream.answerWith(({ model, body }) =>
    model === 'of-tokens' ? { vectors: (body.input as unknown[]).map(() => [1, 2]) } : undefined,
  );
  t.is((await create('openai/of-tokens', [1, 2, 3])).data.length, 1);
  t.is((await create('openai/of-tokens', [[1, 2], [3]])).data.length, 2);
  t.deepEqual(
    scene.upstream.requests.filter(({ model }) => model === 'of-tokens').map(({ body }) => body.input as unknown),
    [[[1, 2, 3]], [[1, 2], [3]]],
  );
  const error = await t.throwsAsync(() => create('google/of-tokens', [1]), { instanceOf: BadRequestError });
  t.is(error.code, 'not_supported');
});

test('a path that is not there is answered in OpenAI’s form below /v1, and in PostgREST’s below /v1/rest', async (t) => {
  const error = await t.throwsAsync(client().moderations.create({ input: 'x' }), { instanceOf: NotFoundError });
  t.like(error, { status: 404, code: 'not_found', type: 'invalid_request_error' });
  const { call } = platform().client;
  const { key, ref } = scene.project;
  for (const path of ['/v1/nothing', '/v1/', '/v1/responses/x', `/p/${ref}/v1/audio/speech`]) {
    const { status, body } = await call('GET', path, { key });
    t.deepEqual([status, body.error?.code, body.error?.param], [404, 'not_found', null], path);
  }
  const other = await call('DELETE', '/v1/chat/completions', { key });
  t.deepEqual([other.status, other.body.error?.code], [405, 'method_not_allowed']);
  for (const path of ['/v1/rest/a/b/c', '/v1beta/models', '/nothing/v1/x']) {
    t.is((await call('GET', path, { key })).body.code, 'not_found', path);
  }
});
