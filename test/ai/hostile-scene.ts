import type { RequestListener } from 'node:http';
import type { ExecutionContext } from 'ava';
import { serve } from '#test/support/serve.ts';
import { type AloneOptions, gatewayAlone } from './gateway-alone.ts';

/** A project whose own model server answers as it likes. */
export const hostile = async (t: ExecutionContext, answer: RequestListener, options: AloneOptions = {}) => {
  const base = await serve(t, (request, response) => {
    response.on('error', () => undefined);
    request.resume();
    answer(request, response);
  });
  return gatewayAlone(t, { ...options, keys: () => ({ openai: base, anthropic: base, google: base }) });
};

export const json = (text: string, headers = {}): RequestListener => {
  return (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(text);
};

export const textOf = (length: number, each: string): string => each.repeat(Math.floor(length / each.length));
