import type { Context } from 'koa';
import type { ReservedBytes } from '#lib/byte-budget.ts';
import type { Config } from '#lib/config.ts';
import type { BodyRules } from './body.ts';
import type { Deps } from '#api/deps.ts';
import type { BodyLimit, Endpoint } from '#api/endpoint.ts';

const bodyLimits = {
  json: 'PLINTH_BODY_LIMIT_JSON',
  function: 'PLINTH_BODY_LIMIT_FUNCTION',
  deploy: 'PLINTH_BODY_LIMIT_DEPLOY',
  ai: 'PLINTH_BODY_LIMIT_AI',
  import: 'PLINTH_BODY_LIMIT_IMPORT',
  flags: 'PLINTH_BODY_LIMIT_FLAGS',
} as const satisfies Record<BodyLimit, keyof Config>;

const closeOf = ({ res }: Context): Promise<void> =>
  res.destroyed ? Promise.resolve() : new Promise((resolve) => res.once('close', resolve));

/**
 * The bytes of the body are given back when the request is answered and its work has ended: they stay in memory as
 * long. The work goes on when its client leaves, first of all while the body waits for a thread that parses it.
 */
const holdBody = (ctx: Context, { bodies }: Deps): ReservedBytes => {
  const reserved = bodies.reserve(String(ctx.state['owner']), String(ctx.state['group']));
  void Promise.all([closeOf(ctx), ctx.state['worked']]).then(reserved.release);
  return reserved;
};

/** Answers `Expect: 100-continue`: the body is wanted. */
export const inviteBody = ({ req, res }: Context): void => {
  if (req.headers.expect?.toLowerCase() === '100-continue' && !res.headersSent) res.writeContinue();
};

/** How the body of a request to an endpoint is read. Needs the request's `owner`, `group` and `worked` in its state. */
export const bodyRules = ({ bodyLimit, textBody, anyBody }: Endpoint, ctx: Context, deps: Deps): BodyRules => {
  const { config } = deps;
  const setting = bodyLimits[bodyLimit];
  return {
    limit: config[setting],
    setting,
    timeoutMs: config.PLINTH_BODY_TIMEOUT_MS,
    minRate: config.PLINTH_BODY_MIN_RATE,
    reserved: holdBody(ctx, deps),
    invite: () => inviteBody(ctx),
    json: deps.json,
    owner: String(ctx.state['group']),
    text: textBody || anyBody,
  };
};
