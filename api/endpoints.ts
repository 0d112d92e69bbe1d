import type { Endpoint } from './endpoint.ts';
import { devicePages } from './pages/device.ts';
import { invitePages } from './pages/invite.ts';
import { verifyLinkPages } from './pages/verify-link.ts';
import { accountPages } from './pages/account.ts';
import { accountEndpoints } from './routes/accounts.ts';
import { authEndpoints } from './routes/auth.ts';
import { authAdminEndpoints } from './routes/auth-admin.ts';
import { authFactorEndpoints } from './routes/auth-factors.ts';
import { authLinkEndpoints } from './routes/auth-links.ts';
import { authUpstreamEndpoints } from './routes/auth-upstream.ts';
import { authSettingsEndpoints } from './routes/auth-settings.ts';
import { arenaEndpoints } from './routes/ai/arena.ts';
import { chatEndpoints } from './routes/ai/chat.ts';
import { generateEndpoints } from './routes/ai/generate.ts';
import { openAiEndpoints } from './routes/ai/openai.ts';
import { aiProviderEndpoints } from './routes/ai/providers.ts';
import { aiUsageEndpoints } from './routes/ai/usage.ts';
import { vectorEndpoints } from './routes/ai/vectors.ts';
import { apiKeyEndpoints } from './routes/api-keys.ts';
import { assistantEndpoints } from './routes/assistant.ts';
import { cronEndpoints } from './routes/cron.ts';
import { databaseEndpoints } from './routes/database.ts';
import { databaseToolEndpoints } from './routes/database-tools.ts';
import { dataEndpoints } from './routes/data-api.ts';
import { emailEndpoints } from './routes/email.ts';
import { endUserEndpoints } from './routes/end-users.ts';
import { eventEndpoints } from './routes/events.ts';
import { exampleEndpoints, exampleListEndpoints } from './routes/examples.ts';
import { flagEndpoints } from './routes/flags.ts';
import { flagEnvironmentEndpoints } from './routes/flags/environments.ts';
import { ofrepEndpoints } from './routes/flags/ofrep.ts';
import { flagSegmentEndpoints } from './routes/flags/segments.ts';
import { logEndpoints } from './routes/functions/logs.ts';
import { functionEndpoints } from './routes/functions.ts';
import { projectEnvEndpoints } from './routes/functions/env.ts';
import { triggerEndpoints } from './routes/functions/triggers.ts';
import { invocationEndpoints } from './routes/functions/invocations.ts';
import { draftEndpoints } from './routes/functions/drafts.ts';
import { statsEndpoints } from './routes/stats.ts';
import { liveEndpoints } from './routes/live.ts';
import { invokeEndpoints } from './routes/functions/invoke.ts';
import { functionJobEndpoints } from './routes/functions/jobs.ts';
import { publicCallEndpoints } from './routes/functions/public-call.ts';
import { versionEndpoints } from './routes/functions/versions.ts';
import { graphqlEndpoints } from './routes/graphql.ts';
import { hookEndpoints } from './routes/hooks.ts';
import { integrationEndpoints } from './routes/integrations.ts';
import { jobEndpoints } from './routes/jobs.ts';
import { mailEndpoints } from './routes/mail.ts';
import { opsCronEndpoints } from './routes/ops/cron.ts';
import { opsJobEndpoints } from './routes/ops/jobs.ts';
import { opsProjectEndpoints } from './routes/ops/projects.ts';
import { opsQueueEndpoints } from './routes/ops/queues.ts';
import { opsSessionEndpoints } from './routes/ops/session.ts';
import { branchEndpoints } from './routes/branches.ts';
import { projectEndpoints } from './routes/projects.ts';
import { storageInfoEndpoints, storageObjectEndpoints } from './routes/storage.ts';
import { storageBucketEndpoints } from './routes/storage-buckets.ts';
import { storageMemberEndpoints } from './routes/storage-members.ts';
import { storageJsonEndpoints } from './routes/storage-objects.ts';
import { storagePictureEndpoints } from './routes/storage-pictures.ts';
import { storageResumableEndpoints } from './routes/storage-resumable.ts';
import { systemEndpoints } from './routes/system.ts';
import { teamEndpoints } from './routes/teams.ts';
import { userEndpoints } from './routes/users.ts';
import { oauthEndpoints } from './routes/oauth.ts';
import { oauthClientEndpoints } from './routes/oauth-clients.ts';
import { interactionPages } from './pages/hosted/interaction.ts';
import { usageEndpoints } from './routes/usage.ts';
import { webhookEndpoints } from './routes/webhooks.ts';
import { deliveryEndpoints } from './routes/webhooks/deliveries.ts';

/**
 * Every endpoint of the platform: the router, `docs/openapi.json` and the generated role test are made from this list.
 */
export const endpoints: readonly Endpoint[] = [
  ...accountEndpoints,
  ...accountPages,
  ...invitePages,
  ...devicePages,
  ...teamEndpoints,
  ...exampleListEndpoints,
  ...projectEndpoints,
  ...exampleEndpoints,
  ...branchEndpoints,
  ...apiKeyEndpoints,
  ...usageEndpoints,
  ...endUserEndpoints,
  ...authSettingsEndpoints,
  ...authEndpoints,
  ...authLinkEndpoints,
  ...authFactorEndpoints,
  ...authUpstreamEndpoints,
  ...verifyLinkPages,
  ...authAdminEndpoints,
  ...userEndpoints,
  ...oauthEndpoints,
  ...interactionPages,
  ...oauthClientEndpoints,
  ...databaseEndpoints,
  ...databaseToolEndpoints,
  ...dataEndpoints,
  ...graphqlEndpoints,
  ...storageBucketEndpoints,
  ...storageInfoEndpoints,
  ...storageJsonEndpoints,
  ...storageResumableEndpoints,
  ...storagePictureEndpoints,
  ...storageObjectEndpoints,
  ...storageMemberEndpoints,
  ...aiProviderEndpoints,
  ...chatEndpoints,
  ...openAiEndpoints,
  ...arenaEndpoints,
  ...vectorEndpoints,
  ...generateEndpoints,
  ...aiUsageEndpoints,
  ...assistantEndpoints,
  ...flagEnvironmentEndpoints,
  ...flagEndpoints,
  ...flagSegmentEndpoints,
  ...ofrepEndpoints,
  ...functionEndpoints,
  ...projectEnvEndpoints,
  ...triggerEndpoints,
  ...logEndpoints,
  ...invokeEndpoints,
  ...liveEndpoints,
  ...statsEndpoints,
  ...draftEndpoints,
  ...functionJobEndpoints,
  ...publicCallEndpoints,
  ...invocationEndpoints,
  ...versionEndpoints,
  ...cronEndpoints,
  ...webhookEndpoints,
  ...deliveryEndpoints,
  ...eventEndpoints,
  ...integrationEndpoints,
  ...hookEndpoints,
  ...emailEndpoints,
  ...jobEndpoints,
  ...systemEndpoints,
  ...mailEndpoints,
  ...opsSessionEndpoints,
  ...opsQueueEndpoints,
  ...opsProjectEndpoints,
  ...opsJobEndpoints,
  ...opsCronEndpoints,
];
