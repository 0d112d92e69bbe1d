import type { Endpoint } from './endpoint.ts';
import { accountEndpoints } from './routes/accounts.ts';
import { apiKeyEndpoints } from './routes/api-keys.ts';
import { functionEndpoints } from './routes/functions.ts';
import { jobEndpoints } from './routes/jobs.ts';
import { mailEndpoints } from './routes/mail.ts';
import { projectEndpoints } from './routes/projects.ts';
import { systemEndpoints } from './routes/system.ts';
import { teamEndpoints } from './routes/teams.ts';

/** Every endpoint of the platform: the router, `docs/openapi.json` and the generated role test are made from this list. */
export const endpoints: readonly Endpoint[] = [
  ...accountEndpoints,
  ...teamEndpoints,
  ...projectEndpoints,
  ...apiKeyEndpoints,
  ...functionEndpoints,
  ...jobEndpoints,
  ...systemEndpoints,
  ...mailEndpoints,
];
