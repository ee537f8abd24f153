import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { LoginCode, SessionItem, SessionPage } from "../api";
import { ApiFailure, mayChange, post, remove, session, signOut } from "../client";
import { useData } from "../data";
import { Dialog, Failure, Head, Loaded, Time } from "../parts";

export function SessionScreen(): JSX.Element {
  const data = useData<SessionPage>("/sessions", { every: 30_000 });
  const [ending, setEnding] = useState<SessionItem>();
  const [link, setLink] = useState<string>();
  const [failure, setFailure] = useState<ApiFailure>();
  const share = (): void => {
    post<LoginCode>("/login-codes", { read_only: true })
      .then((made) => setLink(`${location.origin}/#code=${made.code}`))
      .catch((error: unknown) => setFailure(error as ApiFailure));
  };
  return (
    <>
      <Head title="Session" sub={session.value?.read_only === true ? "This browser may look and change nothing." : "This browser may look and change."}>
        {mayChange() && <button type="button" onClick={share}>Link for a reader</button>}
        <button type="button" onClick={() => void signOut().catch((error: unknown) => setFailure(error as ApiFailure))}>Sign out</button>
      </Head>
      {failure !== undefined && <Failure failure={failure} />}
      {link !== undefined && <div class="note"><strong>This link signs one browser in that may look and change nothing. It works once, within a minute.</strong><p><code class="wide">{link}</code></p></div>}
      <section class="panel">
        <h2>Browsers that are signed in</h2>
        <Loaded data={data}>
          {({ sessions }) => (
            <table class="cards">
              <thead><tr><th>Browser</th><th>Since</th><th>Last used</th><th>May</th><th><span class="sr">End</span></th></tr></thead>
              <tbody>{sessions.map((one) => (
                <tr key={one.name}>
                  <td class="name">{one.agent === "" ? "unknown" : one.agent}{one.current && <span class="label">this one</span>}</td>
                  <td data-name="Since"><Time ms={one.since_ms} /></td><td data-name="Last used"><Time ms={one.used_ms} ago /></td><td data-name="May">{one.read_only ? "look" : "look and change"}</td>
                  <td>{mayChange() && !one.current && <button type="button" onClick={() => setEnding(one)}>End</button>}</td>
                </tr>
              ))}</tbody>
            </table>
          )}
        </Loaded>
      </section>
      <p class="muted"><a href="/api/v1/openapi.json" target="_blank" rel="noreferrer">The API as an OpenAPI document</a> · <a href="/metrics" target="_blank" rel="noreferrer">Metrics</a> · <a href="/assets/LICENSES.txt" target="_blank" rel="noreferrer">Licences of what this page is made of</a></p>
      {ending !== undefined && (
        <Dialog title="End this session" confirm="End it" isBad onConfirm={() => remove(`/sessions/${ending.name}`)} onClose={() => { setEnding(undefined); data.reload(); }}>
          <p>{ending.agent} is signed out at its next request.</p>
        </Dialog>
      )}
    </>
  );
}
