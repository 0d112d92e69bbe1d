/** The bytes of targets and payloads that one batch may write. */
export const passBytes = 8 * 1024 * 1024;
/** The share of one project. */
export const projectBytes = 2 * 1024 * 1024;

export type Taken = 'taken' | 'project full' | 'pass full';

/** The room of one pass. The first fire of a project, and of a pass, always finds room, so that each gets on. */
export const createRoom = () => {
  let used = 0;
  const byProject = new Map<string, number>();
  const refused = new Set<string>();
  return {
    take: (projectId: string, bytes: number): Taken => {
      const own = byProject.get(projectId) ?? 0;
      if (own > 0 && own + bytes > projectBytes) refused.add(projectId);
      if (refused.has(projectId)) return 'project full';
      if (used > 0 && used + bytes > passBytes) return 'pass full';
      used += bytes;
      byProject.set(projectId, own + bytes);
      return 'taken';
    },
    /** A project that was refused once gets no more in this pass. */
    isClosedTo: (projectId: string): boolean => refused.has(projectId),
  };
};

export type Room = ReturnType<typeof createRoom>;
