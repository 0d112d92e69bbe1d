import { useQuery } from '@tanstack/react-query';
import { type ComponentType, Suspense } from 'react';
import { Link, Route, Switch, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { OrgContext } from '../../client/org.ts';
import { part } from '../../client/part.ts';
import { type Role, atLeast } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';

interface Tab {
  readonly at: string;
  readonly label: string;
  /** The least role that may look at it. */
  readonly role: Role;
  readonly page: ComponentType;
}

const tabs: readonly Tab[] = [
  {
    at: '',
    label: 'Members',
    role: 'viewer',
    page: part(async () => (await import('./members.tsx')).MembersPage),
  },
  {
    at: '/projects',
    label: 'Projects and usage',
    role: 'viewer',
    page: part(async () => (await import('./org-projects.tsx')).OrgProjectsPage),
  },
  {
    at: '/roles',
    label: 'Roles',
    role: 'viewer',
    page: part(async () => (await import('./roles.tsx')).RolesPage),
  },
  {
    at: '/audit',
    label: 'Audit log',
    role: 'admin',
    page: part(async () => (await import('./audit.tsx')).AuditPage),
  },
  {
    at: '/settings',
    label: 'Settings',
    role: 'admin',
    page: part(async () => (await import('./org-settings.tsx')).OrgSettingsPage),
  },
];

const Tabs = ({ base, role }: { readonly base: string; readonly role: Role }) => {
  const [here] = useLocation();
  return (
    <nav className="tabs" aria-label="Organization">
      {tabs
        .filter((tab) => atLeast(role, tab.role))
        .map(({ at, label }) => (
          <Link key={at} href={base + at} aria-current={here === base + at ? 'page' : undefined}>
            {label}
          </Link>
        ))}
    </nav>
  );
};

/** Everything about one organization. */
export const OrgPages = ({ id }: { readonly id: string }) => {
  const orgs = useQuery({ queryKey: ['orgs'], queryFn: () => call('GET /team/orgs', {}) });
  if (orgs.data === undefined && orgs.error) return <Failure error={orgs.error} onRetry={() => void orgs.refetch()} />;
  if (orgs.data === undefined) return <p className="loading">Loading…</p>;
  const org = orgs.data.find(({ org_id: one }) => one === id);
  if (org === undefined)
    return (
      <main id="content">
        <h1>Organization</h1>
        <p className="empty">There is no such organization, or you are not a member of it.</p>
      </main>
    );
  const base = `/orgs/${id}`;
  return (
    <OrgContext value={{ ...org, headers: { 'x-org-id': id } }}>
      <main id="content">
        <h1>
          <bdi>{org.org_name}</bdi>
        </h1>
        <p className="muted">
          Your role: {org.role}
          {org.is_own && ' · your own organization'}
        </p>
        <Tabs base={base} role={org.role} />
        <Suspense fallback={<p className="loading">Loading…</p>}>
          <Switch>
            {tabs
              .filter(({ role }) => atLeast(org.role, role))
              .map(({ at, page: Page }) => (
                <Route key={at} path={base + at}>
                  <Page />
                </Route>
              ))}
            <Route>
              <p className="empty">There is no such page, or your role does not open it.</p>
            </Route>
          </Switch>
        </Suspense>
      </main>
    </OrgContext>
  );
};
