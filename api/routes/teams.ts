import { z } from 'zod';
import { listAuditEntries } from '#domain/audit/audit.ts';
import { membersOf, organizationsOf, renameOrganization } from '#domain/teams/store.ts';
import {
  acceptInvite,
  changeRole,
  createOrganization,
  deleteOrganization,
  invite,
  removeMember,
  requireMayGrant,
  resendInvite,
  transferOrganization,
} from '#domain/teams/teams.ts';
import { inOrganization, signedIn, signedInWith } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { finishDeletions } from '../project-deletion.ts';
import { email, id, instant, name, namedObject, page, role, shownOnce, text } from '../fields.ts';

const area = 'teams';

const organization = namedObject('Organization', { org_id: z.string(), org_name: z.string() });

const member = namedObject('Member', {
  id,
  email: z.string(),
  role,
  status: z.enum(['pending', 'active']),
  full_name: z.string().nullable(),
  avatar_url: z.string().nullable(),
});

const invited = namedObject('Invite', {
  id,
  email: z.string(),
  role,
  status: z.literal('pending'),
  invite_link: shownOnce(z.string()),
});

const auditEntry = namedObject('AuditEntry', {
  id,
  project_id: z.string().nullable(),
  actor: z.object({ type: z.string(), id: z.string().optional(), email: z.string().optional() }),
  action: z.string(),
  target_type: z.string(),
  target_id: z.string(),
  before: z.unknown(),
  after: z.unknown(),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
  request_id: z.string().nullable(),
  created_at: instant,
});

const memberPath = z.object({ id });

const organizationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/team/orgs',
    area,
    summary: 'The organizations you are a member of',
    access: signedInWith('read'),
    response: z.array(organization.extend({ role, is_own: z.boolean() })),
    handle: async (_input, { db, user, credential: { orgId } }) =>
      (await organizationsOf(db, user.id)).filter(({ org_id: one }) => orgId === null || one === orgId),
  }),
  endpoint({
    method: 'post',
    path: '/team/orgs',
    area,
    summary: 'Make an organization; you are its owner',
    access: signedIn,
    body: z.strictObject({ org_name: name }),
    status: 201,
    response: organization,
    handle: async ({ body }, { db, user, deps }) => ({
      org_id: await createOrganization(db, user, { name: body.org_name, maxOwned: deps.config.PLINTH_ORGS_PER_USER }),
      org_name: body.org_name,
    }),
  }),
  endpoint({
    method: 'patch',
    path: '/team/orgs/current',
    area,
    summary: 'Rename the organization',
    access: inOrganization('admin'),
    body: z.strictObject({ org_name: name }),
    response: organization,
    handle: async ({ body }, { db, organization: { id: orgId } }) => {
      await renameOrganization(db, orgId, body.org_name);
      return { org_id: orgId, org_name: body.org_name };
    },
  }),
  endpoint({
    method: 'delete',
    path: '/team/orgs/current',
    area,
    summary: 'Delete the organization and all its projects; their databases are kept for 7 days, then dropped',
    access: inOrganization('owner'),
    auditAction: 'organization.delete',
    handle: async (_input, call) => {
      const projects = await deleteOrganization(call.db, call);
      call.afterCommit(() => finishDeletions(call.deps, projects));
    },
  }),
  endpoint({
    method: 'post',
    path: '/team/orgs/current/transfer',
    area,
    summary: 'Make another member the owner in your place; you stay as an admin',
    access: inOrganization('owner'),
    body: z.strictObject({ member_id: id }),
    response: organization.extend({ owner: member }),
    auditAction: 'member.transfer',
    handle: async ({ body }, call) => ({
      org_id: call.organization.id,
      org_name: call.organization.name,
      owner: await transferOrganization(call.db, call, {
        memberId: body.member_id,
        maxOwned: call.deps.config.PLINTH_ORGS_PER_USER,
      }),
    }),
  }),
  endpoint({
    method: 'get',
    path: '/team/audit-log',
    area,
    summary: 'Who changed what in the organization, newest first',
    access: inOrganization('admin'),
    query: page.extend({
      project_id: id.optional(),
      actor: text(320, 1).optional().describe('The id or the e-mail address of who acted.'),
      action: text(100, 1).optional().describe('Such as project.delete; with a dot at its end all that begin so.'),
      since: instant.optional(),
      until: instant.optional(),
    }),
    response: z.object({ entries: z.array(auditEntry), total: z.int() }),
    handle: ({ query: { project_id: projectId, ...query } }, { db, organization: { id: orgId } }) =>
      listAuditEntries(db, orgId, { ...query, projectId }),
  }),
];

const memberEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/team/members',
    area,
    summary: 'The members of the organization, invited ones too',
    access: inOrganization('viewer'),
    response: z.array(member),
    handle: (_input, { db, organization: { id: orgId } }) => membersOf(db, orgId),
  }),
  endpoint({
    method: 'post',
    path: '/team/invite',
    area,
    summary: 'Invite somebody by e-mail; the link works for 7 days, once',
    access: inOrganization('admin'),
    body: z.strictObject({ email, role }),
    status: 201,
    response: invited,
    auditAction: 'member.invite',
    beforeReplay: ({ body }, call) => Promise.resolve(requireMayGrant(call, body.role)),
    handle: ({ body }, call) => invite(call.db, call.deps.mail, call, body),
  }),
  endpoint({
    method: 'post',
    path: '/team/invite/{token}/accept',
    area,
    summary: 'Accept an invite to your e-mail address',
    access: signedIn,
    params: z.object({ token: z.string().max(200) }),
    response: z.object({ accepted: z.literal(true), org_id: z.string(), role }),
    auditAction: 'member.accept',
    handle: async ({ params: { token } }, { db, user, deps }) => {
      const accepted = await acceptInvite(db, user, { token, maxOwned: deps.config.PLINTH_ORGS_PER_USER });
      return { accepted: true as const, org_id: accepted.org_id, role: accepted.role };
    },
  }),
  endpoint({
    method: 'patch',
    path: '/team/members/{id}/role',
    area,
    summary: 'Change a member’s role',
    access: inOrganization('admin'),
    params: memberPath,
    body: z.strictObject({ role }),
    response: member,
    handle: ({ params, body }, call) =>
      changeRole(call.db, call, {
        memberId: params.id,
        role: body.role,
        maxOwned: call.deps.config.PLINTH_ORGS_PER_USER,
      }),
  }),
  endpoint({
    method: 'delete',
    path: '/team/members/{id}',
    area,
    summary: 'Remove a member or take back an invite; anyone may leave',
    access: inOrganization('viewer'),
    params: memberPath,
    handle: ({ params }, call) => removeMember(call.db, call, params.id),
  }),
  endpoint({
    method: 'post',
    path: '/team/members/{id}/resend',
    area,
    summary: 'Send an invite again with a new link; the old one dies',
    access: inOrganization('admin'),
    params: memberPath,
    response: invited,
    auditAction: 'member.resend',
    handle: ({ params }, call) => resendInvite(call.db, call.deps.mail, call, params.id),
  }),
];

/** Organizations, members, invites and the audit log (interface, "Teams"). */
export const teamEndpoints: readonly Endpoint[] = [...organizationEndpoints, ...memberEndpoints];
