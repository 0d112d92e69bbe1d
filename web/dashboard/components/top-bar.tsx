import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Sign } from './icon.tsx';

interface TopBarProps {
  /** The name that leads to the first page. */
  readonly brand: ReactNode;
  /** The name of its navigation, for screen readers. */
  readonly label: string;
  readonly children: ReactNode;
}

/** The bar on top of every page, and the way past it by keyboard. */
export const TopBar = ({ brand, label, children }: TopBarProps) => (
  <>
    <a className="skip" href="#content">
      Skip to the content
    </a>
    <header className="top">
      <div className="where">
        <Link href="/" className="brand">
          <Sign />
          <span>{brand}</span>
        </Link>
      </div>
      <nav aria-label={label}>{children}</nav>
    </header>
  </>
);
