import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { type TemplateText, type TemplateType, defaultTemplates, sampleVariables, templateTypes } from './defaults.ts';
import { type Variables, renderHtml, renderSubject, unknownPlaceholders } from './render.ts';
import { textOf } from './text-part.ts';

/** A template as it is used: the project's own, or the default. */
export interface Template extends TemplateText {
  readonly type: TemplateType;
  /** Whether mails of this type are sent. */
  readonly enabled: boolean;
  /** Null: the default. */
  readonly updated_at: Date | null;
}

const columns = 'type, subject, html_body, enabled, updated_at';

const defaultOf = (type: TemplateType): Template => ({
  type,
  ...defaultTemplates[type],
  enabled: true,
  updated_at: null,
});

export const findTemplate = async (db: Queryable, projectId: string, type: TemplateType): Promise<Template> => {
  const own = await maybeOne(
    db.query<Template>(
      `select ${columns} from email_templates where project_id = $1 and type = $2`,
      [projectId, type],
      'find-email-template',
    ),
  );
  return own ?? defaultOf(type);
};

export const listTemplates = async (db: Queryable, projectId: string): Promise<Template[]> => {
  const own = await db.query<Template>(`select ${columns} from email_templates where project_id = $1`, [projectId]);
  return templateTypes.map((type) => own.find((template) => template.type === type) ?? defaultOf(type));
};

export const setTemplate = (
  db: Queryable,
  projectId: string,
  type: TemplateType,
  text: TemplateText & Pick<Template, 'enabled'>,
): Promise<Template> =>
  one(
    db.query<Template>(
      `insert into email_templates (id, project_id, type, subject, html_body, enabled) values ($1, $2, $3, $4, $5, $6)
       on conflict (project_id, type) do update set subject = excluded.subject, html_body = excluded.html_body,
         enabled = excluded.enabled, updated_at = now()
       returning ${columns}`,
      [newId(), projectId, type, text.subject, text.html_body, text.enabled],
    ),
  );

/** Back to the default; answers it. */
export const resetTemplate = async (db: Queryable, projectId: string, type: TemplateType): Promise<Template> => {
  await db.query('delete from email_templates where project_id = $1 and type = $2', [projectId, type]);
  return defaultOf(type);
};

/** The placeholders that no mail of this type fills. */
export const missingOf = (type: TemplateType, { subject, html_body: body }: TemplateText): string[] =>
  unknownPlaceholders([subject, body], sampleVariables(type, ''));

/** The rendered mail. */
export interface Preview {
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  readonly variables: Variables;
  readonly missing: readonly string[];
}

/** @throws {ServiceError} `validation_failed` when it grows beyond 1 MB */
export const previewOf = (type: TemplateType, text: TemplateText, projectName: string): Preview => {
  const variables = sampleVariables(type, projectName);
  const [subject, html] = [renderSubject(text.subject, variables), renderHtml(text.html_body, variables)];
  return {
    subject: subject.text,
    html: html.text,
    text: textOf(html.text),
    variables,
    missing: [...new Set([...subject.missing, ...html.missing])],
  };
};
