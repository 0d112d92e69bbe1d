/** The time during which at least one of several overlapping things was under way. */
export class BusyTime {
  #open = 0;
  #since = 0;
  #ms = 0;

  /** @returns for the end of the thing */
  enter(): () => void {
    if (this.#open === 0) this.#since = performance.now();
    this.#open += 1;
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#open -= 1;
      if (this.#open === 0) this.#ms += performance.now() - this.#since;
    };
  }

  /** Things that are under way count from now on. */
  reset(): void {
    this.#ms = 0;
    this.#since = performance.now();
  }

  ms(): number {
    return this.#ms + (this.#open > 0 ? performance.now() - this.#since : 0);
  }
}
