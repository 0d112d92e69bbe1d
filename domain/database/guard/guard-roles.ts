import { type TenantRole, idleInTransactionSeconds, statementTimeoutSeconds } from '#lib/tenant-db.ts';

/** Settings that a superuser gives to a role and the role cannot change. */
const fixed: Readonly<Record<string, string>> = {
  temp_file_limit: '1GB',
  // RAISE LOG and failing statements would fill the server's log: there is nothing in it for the platform.
  log_min_messages: 'fatal',
  log_min_error_statement: 'panic',
  log_statement: 'none',
  log_min_duration_statement: '-1',
};

/** SQL within a DO block; `role` is quoted. */
export const roleSettings = (kind: TenantRole, role: string): string => {
  const setAll = (settings: Readonly<Record<string, string>>): string =>
    Object.entries(settings)
      .map(([name, value]) => `alter role ${role} set ${name} = '${value}';`)
      .join('\n');
  return `
    ${setAll({
      statement_timeout: `${statementTimeoutSeconds[kind]}s`,
      idle_in_transaction_session_timeout: `${idleInTransactionSeconds}s`,
    })}
    if (select rolsuper from pg_roles where rolname = current_user) then
      ${setAll(fixed)}
    end if;`;
};
