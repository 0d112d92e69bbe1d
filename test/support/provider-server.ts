import type { IncomingHttpHeaders } from 'node:http';
import type { ExecutionContext } from 'ava';
import { serve } from './serve.ts';

/** The requests to a provider. */
export interface Requested {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Answering {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; text as it is. Left out: nothing. */
  readonly body?: unknown;
}

/** Undefined: the connection is cut. */
export type Respond = (requested: Requested) => Answering | Promise<Answering> | undefined;

export interface ProviderServer {
  readonly base: string;
  /** In their order. */
  readonly requested: readonly Requested[];
}

const textOf = (body: unknown): string => (typeof body === 'string' ? body : JSON.stringify(body));

/** Plays the API of a provider for one test. */
export const serveProvider = async (t: ExecutionContext, respond: Respond): Promise<ProviderServer> => {
  const requested: Requested[] = [];
  const base = await serve(t, (req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    const answerTo = async (one: Requested): Promise<void> => {
      const answer = await respond(one);
      if (answer === undefined) {
        res.destroy();
        return;
      }
      res.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers });
      res.end(answer.body === undefined ? '' : textOf(answer.body));
    };
    req.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const one = { method: req.method ?? '', path: req.url ?? '', headers: req.headers, body };
      requested.push(one);
      void answerTo(one);
    });
  });
  return { base, requested };
};
