import type { Role } from '../../client/project.ts';

/** Each role in a sentence. */
export const roleWords: Readonly<Record<Role, string>> = {
  viewer: 'A viewer looks at everything and changes nothing.',
  developer: 'A developer also changes data, functions, flags and users of the application.',
  admin: 'An admin also has keys, settings and members, and signs in as users of the application.',
  owner: 'An owner also deletes projects and the organization, and chooses plans.',
};
