import type { ComponentType } from 'react';
import { part } from '../client/part.ts';
import type { IconName } from '../components/icon.tsx';

/*
 * Every page of a project: its address below the project's, and its name in the navigation. A new page is a folder
 * here and a line in this list.
 */

type Params = Readonly<Record<string, string | undefined>>;

/** A page that is loaded when it is opened first. Its properties are the parameters of its address. */
const page = <P,>(load: () => Promise<ComponentType<P>>): ComponentType<Params> =>
  part(async () => (await load()) as ComponentType<Params>);

interface Area {
  /** The name in the navigation. */
  readonly label: string;
  readonly icon: IconName;
  /** Where it begins, below the project's address. */
  readonly at: string;
  /** The parameters of its address. */
  readonly params?: string;
  readonly page: ComponentType<Params>;
  /** Pages below it that stand in no navigation: address and page. */
  readonly below?: Readonly<Record<string, ComponentType<Params>>>;
}

interface Group {
  readonly label: string;
  readonly areas: readonly Area[];
}

export const groups: readonly Group[] = [
  {
    label: 'Project',
    areas: [
      { label: 'Home', icon: 'home', at: '', page: page(async () => (await import('./home/home.tsx')).HomePage) },
      {
        label: 'Traffic',
        icon: 'chart',
        at: '/traffic',
        page: page(async () => (await import('./traffic/traffic.tsx')).TrafficPage),
      },
    ],
  },
  {
    label: 'Data',
    areas: [
      {
        label: 'Tables',
        icon: 'table',
        at: '/tables',
        params: '/:name?',
        page: page(async () => (await import('./tables/tables.tsx')).TablesPage),
      },
      {
        label: 'Schema',
        icon: 'schema',
        at: '/schema',
        params: '/:name?',
        page: page(async () => (await import('./schema/schema.tsx')).SchemaPage),
      },
      { label: 'SQL', icon: 'sql', at: '/sql', page: page(async () => (await import('./sql/sql.tsx')).SqlPage) },
      {
        label: 'Slow queries',
        icon: 'clock',
        at: '/slow-queries',
        page: page(async () => (await import('./slow-queries/slow-queries.tsx')).SlowQueriesPage),
      },
      {
        label: 'Storage',
        icon: 'storage',
        at: '/storage',
        params: '/:bucket?',
        page: page(async () => (await import('./storage/storage.tsx')).StoragePage),
      },
      {
        label: 'Vectors',
        icon: 'vectors',
        at: '/vectors',
        params: '/:name?',
        page: page(async () => (await import('./vectors/vectors.tsx')).VectorsPage),
      },
    ],
  },
  {
    label: 'Work',
    areas: [
      {
        label: 'Functions',
        icon: 'functions',
        at: '/functions',
        page: page(async () => (await import('./functions/functions.tsx')).FunctionsPage),
        below: { '/functions/:id': page(async () => (await import('./functions/function.tsx')).FunctionPage) },
      },
      {
        label: 'Jobs',
        icon: 'jobs',
        at: '/jobs',
        params: '/:id?',
        page: page(async () => (await import('./jobs/jobs.tsx')).JobsPage),
      },
      {
        label: 'Schedules',
        icon: 'clock',
        at: '/cron',
        page: page(async () => (await import('./cron/schedules.tsx')).SchedulesPage),
        below: { '/cron/:id': page(async () => (await import('./cron/schedule.tsx')).SchedulePage) },
      },
      {
        label: 'Webhooks',
        icon: 'webhooks',
        at: '/webhooks',
        page: page(async () => (await import('./webhooks/webhooks.tsx')).WebhooksPage),
        below: {
          '/webhooks/:id': page(async () => (await import('./webhooks/webhook.tsx')).WebhookPage),
          '/webhooks/:id/deliveries/:did': page(async () => (await import('./webhooks/delivery.tsx')).DeliveryPage),
        },
      },
      {
        label: 'AI',
        icon: 'chat',
        at: '/ai',
        page: page(async () => (await import('./ai/ai.tsx')).AiPage),
        below: { '/ai/calls/:call': page(async () => (await import('./ai/call.tsx')).AiCallPage) },
      },
      { label: 'Logs', icon: 'logs', at: '/logs', page: page(async () => (await import('./logs/logs.tsx')).LogsPage) },
    ],
  },
  {
    label: 'People',
    areas: [
      {
        label: 'Users',
        icon: 'users',
        at: '/users',
        page: page(async () => (await import('./users/users.tsx')).UsersPage),
        below: { '/users/:id': page(async () => (await import('./users/user.tsx')).UserPage) },
      },
      {
        label: 'Sign-in',
        icon: 'enter',
        at: '/sign-in',
        page: page(async () => (await import('./sign-in-settings/sign-in-settings.tsx')).SignInSettingsPage),
      },
      {
        label: 'Flags',
        icon: 'flags',
        at: '/flags',
        page: page(async () => (await import('./flags/flags.tsx')).FlagsPage),
        below: { '/flags/:name': page(async () => (await import('./flags/flag.tsx')).FlagPage) },
      },
      {
        label: 'Segments',
        icon: 'users',
        at: '/segments',
        page: page(async () => (await import('./segments/segments.tsx')).SegmentsPage),
        below: { '/segments/:name': page(async () => (await import('./segments/segment.tsx')).SegmentPage) },
      },
    ],
  },
  {
    label: 'Settings',
    areas: [
      {
        label: 'Mail',
        icon: 'mail',
        at: '/mail',
        page: page(async () => (await import('./mail/mail.tsx')).MailPage),
        below: {
          '/mail/sent/:mail': page(async () => (await import('./mail/sent-mail.tsx')).SentMailPage),
          '/mail/:type': page(async () => (await import('./mail/template.tsx')).TemplatePage),
        },
      },
      {
        label: 'Integrations',
        icon: 'plug',
        at: '/integrations',
        page: page(async () => (await import('./integrations/integrations.tsx')).IntegrationsPage),
      },
      {
        label: 'API keys',
        icon: 'key',
        at: '/keys',
        page: page(async () => (await import('./keys/keys.tsx')).KeysPage),
      },
      {
        label: 'Settings',
        icon: 'settings',
        at: '/settings',
        page: page(async () => (await import('./settings/settings.tsx')).SettingsPage),
      },
    ],
  },
];
