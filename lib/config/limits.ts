import { integer, mib, note, onOff, oneOf } from './kinds.ts';

/** Settings that bound what one client may ask for and hold over HTTP. */
export const limitSettings = {
  PLINTH_RATE_LIMITS: note(onOff('on'), 'Turns all rate limits off (tests, benchmarks).'),
  PLINTH_RATE_LIMIT_DASHBOARD: note(integer(300, 1, 1_000_000), 'Management requests per user.', 'per minute'),
  PLINTH_RATE_LIMIT_SIGN_IN: note(integer(30, 1, 1_000_000), 'Sign-ups and logins per IP address.', 'per 5 minutes'),
  PLINTH_RATE_LIMIT_DATA_FREE: note(
    integer(600, 1, 10_000_000),
    'Data API requests per API key of a project on the free plan.',
    'per minute',
  ),
  PLINTH_RATE_LIMIT_DATA_PRO: note(
    integer(6000, 1, 10_000_000),
    'Data API requests per API key of a project on the pro plan.',
    'per minute',
  ),
  PLINTH_RATE_LIMIT_AI_FREE: note(integer(60, 1, 10_000_000), 'AI requests per key, free plan.', 'per minute'),
  PLINTH_RATE_LIMIT_AI_PRO: note(integer(600, 1, 10_000_000), 'AI requests per key, pro plan.', 'per minute'),
  PLINTH_RATE_LIMIT_FLAGS_FREE: note(
    integer(6000, 1, 10_000_000),
    'Evaluations of feature flags (one flag, or all at once) per API key of a project on the free plan.',
    'per minute',
  ),
  PLINTH_RATE_LIMIT_FLAGS_PRO: note(integer(60_000, 1, 10_000_000), 'The same on the pro plan.', 'per minute'),
  PLINTH_FLAG_CACHE_PER_PROJECT: note(
    integer(256 * mib, mib, 4096 * mib),
    'Memory that one process uses for the feature flags of one project, estimated.',
    'bytes',
  ),
  PLINTH_FLAG_CACHE_PER_PROCESS: note(
    integer(512 * mib, mib, 16_384 * mib),
    'The same for all projects; those that were asked for longest ago make room.',
    'bytes',
  ),
  PLINTH_FLAG_LISTENERS_FREE: note(
    integer(200, 1, 1_000_000),
    'Clients that listen for changes of feature flags of one project on the free plan, in one process.',
  ),
  PLINTH_FLAG_LISTENERS_PRO: note(integer(2000, 1, 1_000_000), 'The same on the pro plan.'),
  PLINTH_FLAG_LISTENERS: note(integer(10_000, 1, 1_000_000), 'The same of all projects, in one process.'),
  PLINTH_RATE_LIMIT_PUBLIC_ADDRESS: note(
    integer(300, 1, 10_000_000),
    'Calls of public functions without credentials, per IP address and project.',
    'per minute',
  ),
  PLINTH_RATE_LIMIT_PUBLIC_FREE: note(
    integer(1200, 1, 10_000_000),
    'Calls of public functions without credentials, per project on the free plan.',
    'per minute',
  ),
  PLINTH_RATE_LIMIT_PUBLIC_PRO: note(
    integer(12_000, 1, 10_000_000),
    'Calls of public functions without credentials, per project on the pro plan.',
    'per minute',
  ),
  PLINTH_BODY_LIMIT_JSON: note(integer(mib, 1024, 64 * mib), 'The largest JSON request body.', 'bytes'),
  PLINTH_BODY_LIMIT_FUNCTION: note(integer(6 * mib, 1024, 64 * mib), 'The largest payload of a function.', 'bytes'),
  PLINTH_BODY_LIMIT_DEPLOY: note(
    integer(16 * mib, 1024, 64 * mib),
    'The largest body that deploys a function, with its files.',
    'bytes',
  ),
  PLINTH_BODY_LIMIT_AI: note(
    integer(10 * mib, 1024, 64 * mib),
    'The largest body of a request to models, with its images and documents.',
    'bytes',
  ),
  PLINTH_BODY_LIMIT_IMPORT: note(
    integer(50 * mib, 1024, 64 * mib),
    'The largest list of users that is imported at once.',
    'bytes',
  ),
  PLINTH_BODY_LIMIT_FLAGS: note(
    integer(10 * mib, 1024, 64 * mib),
    'The largest file of feature flags that is imported, and the largest list of keys of a segment.',
    'bytes',
  ),
  PLINTH_BODY_TIMEOUT_MS: note(integer(15_000, 100, 600_000), 'How long a request body may take to arrive.', 'ms'),
  PLINTH_BODY_MIN_RATE: note(
    integer(4096, 0, 64 * mib),
    'The least rate at which a request body must arrive, on average over five seconds.',
    'bytes per second',
  ),
  PLINTH_BODIES_PER_PROJECT: note(
    integer(64 * mib, mib, 1024 * mib),
    'Request bodies of one project (before it is known: of one address) that one process holds at a time; more are refused as `overloaded`.',
    'bytes',
  ),
  PLINTH_BODIES_PER_PROCESS: note(
    integer(256 * mib, 2 * mib, 16_384 * mib),
    'Request bodies of all projects that one process holds at a time; no project gets more of it than is still free.',
    'bytes',
  ),
  PLINTH_ANSWERS_PER_PROJECT: note(
    integer(64 * mib, mib, 1024 * mib),
    'Answers of one project (without one: to one address) that wait for their readers in one process; more are refused as `overloaded`.',
    'bytes',
  ),
  PLINTH_ANSWERS_PER_PROCESS: note(
    integer(256 * mib, 2 * mib, 16_384 * mib),
    'Answers of all projects that wait for their readers in one process; no project gets more of it than is still free.',
    'bytes',
  ),
  PLINTH_STALLED_ANSWER_MS: note(
    integer(30_000, 1000, 600_000),
    'A connection whose client reads nothing of its answer for so long is closed.',
    'ms',
  ),
  PLINTH_TRANSFERS_PER_PROJECT: note(
    integer(200, 1, 1_000_000),
    'Files of one project that one process takes and hands out at a time; more are refused as `overloaded`.',
  ),
  PLINTH_TRANSFERS_PER_PROCESS: note(
    integer(2000, 2, 1_000_000),
    'The same of all projects together; no organization gets more of it than is still free.',
  ),
  PLINTH_STORAGE_PDF: note(
    oneOf(['inline', 'attachment']).default('inline'),
    'Whether browsers open PDF files of projects, or save them as they do HTML.',
  ),
  PLINTH_AI_ANSWERS_PER_PROJECT: note(
    integer(64 * mib, 33 * mib, 1024 * mib),
    'Answers of models of one project that one process holds at a time; more are refused as `overloaded`.',
    'bytes',
  ),
  PLINTH_AI_ANSWERS_PER_PROCESS: note(
    integer(256 * mib, 66 * mib, 16_384 * mib),
    'Answers of models of all projects that one process holds at a time; no project gets more of it than is still free.',
    'bytes',
  ),
  PLINTH_CONNECTIONS: note(
    integer(10_000, 1, 1_000_000),
    'Connections that one API process accepts; more are closed at once.',
  ),
  PLINTH_CONNECTIONS_PER_ADDRESS: note(
    integer(1000, 1, 1_000_000),
    'Connections from one IP address (an IPv6 network of 64 bits) to one API process; not counted behind a trusted proxy.',
  ),
};
