import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Smtp } from './smtp.tsx';

/** The mails that the project sends: their texts, and the server that sends them. */
export const MailPage = () => {
  const { project, role } = useProject();
  const params = { project_id: project.id };
  const templates = useQuery({
    queryKey: ['templates', project.id],
    queryFn: () => call('GET /projects/{project_id}/email/templates', { params }),
  });
  const base = `/projects/${project.id}`;
  return (
    <>
      <h1>Mail</h1>
      <p className="muted">
        Mails that could not be sent are <Link href={`${base}/jobs?type=email.send&status=failed`}>failed jobs</Link>.
      </p>
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
