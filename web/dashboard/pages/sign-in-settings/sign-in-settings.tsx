import { Link } from 'wouter';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { useAuthSettings } from './auth-settings.ts';
import { Captcha } from './captcha.tsx';
import { CustomClaims } from './claims.tsx';
import { Clients, SigningKeys } from './clients.tsx';
import { Providers } from './providers.tsx';
import { SettingsForm } from './settings-form.tsx';

const tabs = {
  settings: 'Settings',
  checks: 'Captcha and claims',
  clients: 'OpenID clients',
  keys: 'Signing keys',
} as const;

interface PartProps {
  readonly mayWrite: boolean;
}

/** The parts that belong to one set of settings. */
const OfSettings = ({ mayWrite, part }: PartProps & { readonly part: 'settings' | 'checks' }) => {
  const settings = useAuthSettings();
  if (settings.error) return <Failure error={settings.error} onRetry={() => void settings.refetch()} />;
  if (settings.data === undefined) return null;
  if (part === 'settings') return <SettingsForm settings={settings.data} mayWrite={mayWrite} />;
  return (
    <>
      <Captcha settings={settings.data} mayWrite={mayWrite} />
      <CustomClaims settings={settings.data} mayWrite={mayWrite} />
    </>
  );
};

/** How users of the project's application sign in, and the other programs that they sign in to. */
export const SignInSettingsPage = () => {
  const { project, role } = useProject();
  const tab = useTab(tabs);
  const mayWrite = atLeast(role, 'admin');
  return (
    <>
      <h1>Sign-in</h1>
      <p>
        {mayWrite ? 'How users of your application sign in.' : 'Admins and owners change how users sign in.'} The texts
        of the mails are at <Link href={`/projects/${project.id}/mail`}>Mail</Link>.
      </p>
      <Tabs label="Parts of sign-in" tabs={tabs} current={tab} />
      {tab === 'settings' && <Providers mayWrite={mayWrite} />}
      {(tab === 'settings' || tab === 'checks') && <OfSettings mayWrite={mayWrite} part={tab} />}
      {tab === 'clients' && <Clients mayWrite={mayWrite} />}
      {tab === 'keys' && <SigningKeys mayWrite={mayWrite} />}
    </>
  );
};
