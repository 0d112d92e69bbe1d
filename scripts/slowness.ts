const probeCpuMs = 150;
const maxSlowness = 5;

/**
 * How many times as long as on an idle machine work takes now: 1 on an idle one, 2 to 3 beside four busy processes on
 * two cores. It is what the clock shows for 150 ms of this process's own processor time.
 */
export const measureSlowness = (): number => {
  const [began, before] = [performance.now(), process.cpuUsage()];
  let cpuMs = 0;
  while (cpuMs < probeCpuMs) {
    const { user, system } = process.cpuUsage(before);
    cpuMs = (user + system) / 1000;
  }
  const ratio = (performance.now() - began) / cpuMs;
  return Math.min(maxSlowness, Math.max(1, Math.round(ratio * 10) / 10));
};
