import { useState } from 'react';
import { Link } from 'wouter';
import { Icon, type IconName } from './icon.tsx';

interface NavigationLink {
  readonly href: string;
  readonly label: string;
  readonly icon: IconName;
  readonly isCurrent: boolean;
}

interface NavigationProps {
  readonly name: string;
  /** The links by the heading above them; an empty text is no heading. */
  readonly groups: readonly { readonly label: string; readonly links: readonly NavigationLink[] }[];
}

/** The pages at the side of the present one; on a telephone behind a button. */
export const Navigation = ({ name, groups }: NavigationProps) => {
  const [isOpen, setOpen] = useState(false);
  const current = groups.flatMap(({ links }) => links).find(({ isCurrent }) => isCurrent);
  return (
    <>
      <button type="button" className="menu-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="menu" />
        {current?.label ?? 'Pages'}
      </button>
      <nav className={isOpen ? 'areas is-open' : 'areas'} aria-label={name}>
        {groups.map(({ label: group, links }) => (
          <div key={group} className="group">
            {group !== '' && <h2>{group}</h2>}
            {links.map(({ href, label, icon, isCurrent }) => (
              <Link key={href} href={href} aria-current={isCurrent ? 'page' : undefined} onClick={() => setOpen(false)}>
                <Icon name={icon} />
                {label}
              </Link>
            ))}
          </div>
        ))}
      </nav>
    </>
  );
};
