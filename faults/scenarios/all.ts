import { acceptScenarios } from './accepting.ts';
import { apiScenarios } from './api.ts';
import { cliCopyScenarios } from './cli-copy.ts';
import { cronScenarios } from './cron.ts';
import { failoverScenarios } from './failover.ts';
import { diskScenarios } from './disk.ts';
import { postgresScenarios } from './postgres.ts';
import { redisScenarios } from './redis.ts';
import { ruleScenarios } from './rules.ts';
import { workerScenarios } from './workers.ts';
import type { Scenario } from './scenario.ts';
import { functionJobScenarios } from './function-jobs.ts';
import { modelScenarios } from './models.ts';
import { storageScenarios } from './storage.ts';
import { stepScenarios } from './steps.ts';
import { streamScenarios } from './streams.ts';
import { webhookScenarios } from './webhooks.ts';

/** The fault table, in the order of its rows. */
export const scenarios: readonly Scenario[] = [
  ...workerScenarios,
  ...redisScenarios,
  ...failoverScenarios,
  ...postgresScenarios,
  ...diskScenarios,
  ...acceptScenarios,
  ...ruleScenarios,
  ...apiScenarios,
  ...cronScenarios,
  ...webhookScenarios,
  ...modelScenarios,
  ...storageScenarios,
  ...cliCopyScenarios,
  ...streamScenarios,
  ...stepScenarios,
  ...functionJobScenarios,
];
