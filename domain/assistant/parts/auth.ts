import { type Queryable, one } from '#lib/control-db.ts';
import { signingAlgorithm } from '#domain/end-users/signing-keys.ts';

interface AuthRow {
  readonly signing_keys: number;
  readonly secret_keys: number;
  readonly publishable_keys: number;
}

const counts = (db: Queryable, projectId: string): Promise<AuthRow> =>
  one(
    db.query<AuthRow>(
      `select (select count(*)::int from project_signing_keys where project_id = $1) as signing_keys,
         count(*) filter (where kind = 'secret')::int as secret_keys,
         count(*) filter (where kind = 'publishable')::int as publishable_keys
       from api_keys where project_id = $1 and (expires_at is null or expires_at > now())`,
      [projectId],
      'assistant-auth',
    ),
  );

/** The ways in which requests to a project authenticate. Of its keys it has only the number. */
export const authText = async (
  { db }: { readonly db: Queryable },
  { projectId }: { readonly projectId: string },
): Promise<string> => {
  const { signing_keys: signing, secret_keys: secret, publishable_keys: publishable } = await counts(db, projectId);
  return [
    `Requests carry an API key of the project (${secret} secret and ${publishable} publishable ones are valid), the token of an end user, or both.`,
    'The database role is service_role with a secret key (row-level security does not bind it), anon with a publishable key alone, authenticated with the token of an end user.',
    `Tokens of end users are signed with ${signingAlgorithm} by keys of the project's own (${signing} so far).`,
    "In policies auth.uid() is the end user's id, auth.jwt() are the token's claims, auth.role() is the role.",
  ].join('\n');
};
