// A real provider of OpenID Connect on loopback: npm's oidc-provider with one client, `dither`.
// Arguments: the folder of node's modules, the issuer's name, and the address that people are sent
// back to. The first line of its output is its own address.
import http from "node:http";
import { pathToFileURL } from "node:url";

const [modules, issuer, redirectUri] = process.argv.slice(2);
const { default: Provider } = await import(
  pathToFileURL(`${modules}/oidc-provider/lib/index.js`)
);
const server = http.createServer((request, response) => answer(request, response));
let answer;
server.listen(0, "127.0.0.1", () => {
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "dither",
        redirect_uris: [redirectUri],
        response_types: ["code"],
        grant_types: ["authorization_code"],
        token_endpoint_auth_method: "none",
      },
    ],
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
  });
  answer = provider.callback();
  console.log(`http://127.0.0.1:${server.address().port}`);
});
process.stdin.on("end", () => process.exit(0)).resume();
