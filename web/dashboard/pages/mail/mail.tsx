import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { Mails } from './mails.tsx';
import { Smtp } from './smtp.tsx';

const tabs = { templates: 'Templates and server', sent: 'Mails' } as const;

const Templates = () => {
  const { project, role } = useProject();
  const params = { project_id: project.id };
  const templates = useQuery({
    queryKey: ['templates', project.id],
    queryFn: () => call('GET /projects/{project_id}/email/templates', { params }),
  });
  const base = `/projects/${project.id}`;
  return (
    <>
      <h2>Templates</h2>
      {templates.error && <Failure error={templates.error} onRetry={() => void templates.refetch()} />}
      <Table caption="Templates" isCaptionHidden columns={['Mail', 'Subject', 'Sent', 'Text', 'Missing variables']}>
        {templates.data?.templates.map((template) => (
          <tr key={template.type}>
            <td>
              <Link href={`${base}/mail/${template.type}`}>{template.type}</Link>
            </td>
            <td className="one-line">
              <bdi>{template.subject}</bdi>
            </td>
            <td>{template.enabled ? 'yes' : 'no'}</td>
            <td>{template.is_default ? 'the usual one' : 'your own'}</td>
            <td className={template.missing.length > 0 ? 'bad' : undefined}>{template.missing.join(', ') || '–'}</td>
          </tr>
        ))}
      </Table>
      <Smtp mayWrite={atLeast(role, 'admin')} />
    </>
  );
};

/** The mails that the project sends: their texts, the server that sends them, and what became of each. */
export const MailPage = () => {
  const tab = useTab(tabs);
  return (
    <>
      <h1>Mail</h1>
      <Tabs label="Mail" tabs={tabs} current={tab} />
      {tab === 'templates' ? <Templates /> : <Mails />}
    </>
  );
};
