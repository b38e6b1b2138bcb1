package fingerprint_test

import (
	"testing"

	"github.com/pawl-dev/pawl/fingerprint"
)

// oneCause are pairs of texts that programs write, of one cause.
var oneCause = [][2]string{
	// Go
	{"open /in/alice/2026-11-21.csv: no such file or directory", "open /in/bob/x.csv: no such file or directory"},
	{"open in/alice.csv: no such file or directory", "open /srv/data: no such file or directory"},
	{"open alice.csv: no such file or directory", "open ./in/bob.csv: no such file or directory"},
	{`open C:\in\x.csv: The system cannot find the file specified.`,
		`open D:\data\in\orders 2\y.csv: The system cannot find the file specified.`},
	{`open \\server\share\x.csv: The network path was not found.`,
		`open C:\Program Files (x86)\y.csv: The network path was not found.`},
	{"stat uploads/eve/a.png: permission denied", "stat ~/uploads/b.png: permission denied"},
	{"rename /a/b -> /c/d: invalid cross-device link", "rename /x/y.tmp -> /z: invalid cross-device link"},
	{"dial tcp cache.us.example.net:6379: i/o timeout", "dial tcp 10.0.0.7:6379: i/o timeout"},
	{"dial tcp redis:6379: i/o timeout", "dial tcp cache-eu:6379: i/o timeout"},
	{"dial tcp: lookup db1.eu.example.com: no such host", "dial tcp: lookup db2.us.example.org: no such host"},
	{"dial tcp: lookup db on 10.0.0.2:53: no such host", "dial tcp: lookup cache on 10.0.0.2:53: no such host"},
	{`Get "https://a.example.com/x?y=1": EOF`, `Get "http://b.example.net:8080/": EOF`},
	{"Get https://a.example.com/x,y: EOF", "Get https://[2001:db8::1]:8443/(z): EOF"},
	{"lookup kafka-0.kafka.prod.svc.cluster.local: server misbehaving",
		"lookup kafka-1.kafka.test.svc: server misbehaving"},
	{"x509: certificate is valid for a.example.com, not b.example.com",
		"x509: certificate is valid for www.example.org, not api.example.org"},
	{"parsing time \"x\" as \"2006\": cannot parse", "parsing time \"y\" as \"2006-01\": cannot parse"},
	{"retry 1 attempt left", "retry 3 attempts left"},
	// Java
	{"java.net.UnknownHostException: db1.eu.example.com", "java.net.UnknownHostException: cache.us.example.net"},
	{"java.io.FileNotFoundException: /in/a.csv (No such file or directory)",
		"java.io.FileNotFoundException: in/b/c (No such file or directory)"},
	{"java.net.ConnectException: Failed to connect to db1.example.com/10.0.0.7:5432",
		"java.net.ConnectException: Failed to connect to db2.example.com/10.0.0.9:5432"},
	{
		"org.apache.kafka.common.errors.TimeoutException: Expiring 17 record(s) for orders-3:120000 ms has passed since batch creation",
		"org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for orders-11:30001 ms has passed since batch creation"},
	// Python
	{"FileNotFoundError: [Errno 2] No such file or directory: 'in/a.csv'",
		"FileNotFoundError: [Errno 2] No such file or directory: '/tmp/b c.csv'"},
	{
		"requests.exceptions.ConnectionError: HTTPSConnectionPool(host='a.example.com', port=443): Max retries exceeded with url: /x?y=1",
		"requests.exceptions.ConnectionError: HTTPSConnectionPool(host='b.example.org', port=8443): Max retries exceeded with url: /z"},
	{"KeyError: 'a'", "KeyError: 'b'"},
	// Node
	{"Error: connect ECONNREFUSED 127.0.0.1:5432", "Error: connect ECONNREFUSED ::1:5432"},
	{"Error: getaddrinfo ENOTFOUND db1.example.com", "Error: getaddrinfo ENOTFOUND redis"},
	{"Error: ENOENT: no such file or directory, open '/a/b.json'",
		"Error: ENOENT: no such file or directory, open 'c.json'"},
	{"SyntaxError: Unexpected token < in JSON at position 0",
		"SyntaxError: Unexpected token < in JSON at position 1723"},
	// PostgreSQL, MySQL
	{`ERROR: duplicate key value violates unique constraint "users_pkey" Key (email)=(a@example.com) already exists.`,
		`ERROR: duplicate key value violates unique constraint "users_pkey" Key (email)=(bob smith) already exists.`},
	{`FATAL: password authentication failed for user "alice"`, `FATAL: password authentication failed for user "bob"`},
	{
		`could not connect to server: Connection refused Is the server running on host "db1" (10.0.0.7) and accepting TCP/IP connections on port 5432?`,
		`could not connect to server: Connection refused Is the server running on host "db2.example.com" (10.9.0.7) and accepting TCP/IP connections on port 5433?`},
	{"Error 1062 (23000): Duplicate entry 'a@example.com' for key 'users.email'",
		"Error 1062 (23000): Duplicate entry 'bob' for key 'users.email'"},
	{"ERROR 1045 (28000): Access denied for user 'a'@'10.0.0.1' (using password: YES)",
		"ERROR 1045 (28000): Access denied for user 'b'@'db1.example.com' (using password: YES)"},
	{"Lost connection to MySQL server at 'db1.example.com', system error: 110",
		"Lost connection to MySQL server at '10.0.0.1', system error: 110"},
	{`{pq: password authentication failed for user \"alice\"}`,
		`{pq: password authentication failed for user \"bob\"}`},
	// Redis, OpenSearch, S3
	{"MOVED 3999 127.0.0.1:6381", "MOVED 12 cache1.example.com:6381"},
	{"index_not_found_exception: no such index [orders-2026.11.21]",
		"index_not_found_exception: no such index [orders-2025.01.02]"},
	{"NoSuchKey: The specified key does not exist. key=in/a.csv request_id=ABCDEF",
		"NoSuchKey: The specified key does not exist. key=b request_id=4442587FB7D0A2F9"},
	{"AccessDenied: arn:aws:s3:::bucket/a/b is not yours",
		"AccessDenied: arn:aws:iam::123456789012:role/x is not yours"},
	{"cannot read s3://bucket/in/a.csv: slow down", "cannot read s3://other/b: slow down"},
	// nginx, curl, shell
	{
		`upstream timed out (110: Connection timed out) while reading response header from upstream, client: 10.0.0.1, server: a.example.com, request: "GET /x HTTP/1.1", upstream: "http://10.0.0.9:80/x", host: "a.example.com"`,
		`upstream timed out (110: Connection timed out) while reading response header from upstream, client: 2001:db8::1, server: b.example.com, request: "POST /y HTTP/2.0", upstream: "http://10.0.0.8:8080/y", host: "b.example.com:8443"`},
	{"curl: (6) Could not resolve host: a.example.com", "curl: (6) Could not resolve host: cache"},
	{"curl: (7) Failed to connect to a.example.com port 443 after 12 ms: Couldn't connect to server",
		"curl: (7) Failed to connect to 10.0.0.9 port 8443 after 1.5 s: Couldn't connect to server"},
	{"cat: /a/b.txt: No such file or directory", "cat: in/c.txt: No such file or directory"},
	{"/bin/sh: 1: foo: not found", "/bin/dash: 17: foo: not found"},
	// what ids look like
	{"no object deadbeef", "no object cafefeed"}, {"no object ABCDEF", "no object 0a1b2c"},
	{"no object facedead", "no object 9F"},
	{"lease aa:bb:cc:dd:ee:ff is taken", "lease 00-1A-2B-3C-4D-5E is taken"},
	{"no order ord_abcdef", "no order ord_9s6XKzkN"}, {"no user usr_851cabff9012", "no user usr_kqzxwvbnmprtqz"},
	{"bad key aGVsbG8/d29ybGQ+Zm9vYmFyIQ==", "bad key q83vEjRWeJCrze8SNFZ4kKvN"},
	{"bad token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
		"bad token eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.x"},
	{"no user 550E8400-E29B-41D4-A716-446655440000", "no user 01arz3ndektsv4rrffq69g5fav"},
	{"pod payments-7d9f8b6c5d-xkqzr is gone", "pod payments-5c6b8f9d7d-2x7q9 is gone"},
	// times, numbers
	{"not before Sat Nov 21 18:06:05 CET 2026", "not before Mon Feb  2 08:00:00 UTC 2026"},
	{"not before 02-Jan-2026", "not before 2026/01/02 15:04:05"},
	{"not before Sat, 21 Nov 2026 18:06:05 +0100", "not before 2026-11-21T18:06:05.123Z"},
	{"disk is 15% full", "disk is 100.0 % full"}, {"took 1m30s", "took 250ms"}, {"took 3 weeks", "took 1.5 s"},
	{"needs version 1.2.3 of it", "needs version 10.0.1-rc2 of it"},
	{"call +49 30 1234567 failed", "call (555) 123-4567 failed"},
	{"a charge of $12.50 failed", "a charge of 7,000.00 EUR failed"},
	{"a charge of USD 12 failed", "a charge of €12.50 failed"},
	// keys
	{"denied user=alice tenant=acme code=7", "denied user=bob tenant='b c' code=7"},
	{"denied: user: alice, host: db", "denied: user: bob, host: b"},
	{"login failed: username: eve is locked", "login failed: username: bob is locked"},
	{"failed customerId=alice", "failed customerId=bob"}, {"failed trace_id=alice;path=/a",
		"failed trace_id=bob;path=c"},
}

// twoCauses are pairs of texts that programs write, of different causes.
var twoCauses = [][2]string{
	{`ERROR: duplicate key value violates unique constraint "users_pkey"`,
		`ERROR: duplicate key value violates unique constraint "orders_pkey"`},
	{"Error 1062 (23000): Duplicate entry 'x' for key 'users.email'",
		"Error 1062 (23000): Duplicate entry 'x' for key 'users.phone'"},
	{`pq: column \"a\" does not exist`, `pq: column \"b\" does not exist`},
	{"k8s.io/client-go/tools/a failed", "k8s.io/client-go/tools/b failed"},
	{`ERROR: column "a" does not exist`, `ERROR: column "b" does not exist`},
	{`ERROR: relation "users" does not exist`, `ERROR: relation "orders" does not exist`},
	{`null value in column "a" of relation "t" violates not-null constraint`,
		`null value in column "a" of relation "u" violates not-null constraint`},
	{`insert or update on table "a" violates foreign key constraint "fk"`,
		`insert or update on table "b" violates foreign key constraint "fk"`},
	{`FATAL: role "app" does not exist`, `FATAL: role "web" does not exist`},
	{`FATAL: database "app" does not exist`, `FATAL: database "web" does not exist`},
	{"Table 'db.users' doesn't exist", "Table 'db.orders' doesn't exist"},
	{"the table's 'a' is full", "the table's 'b' is full"},
	{"AttributeError: 'str' object has no attribute 'foo'", "AttributeError: 'str' object has no attribute 'bar'"},
	{"ModuleNotFoundError: No module named 'foo'", "ModuleNotFoundError: No module named 'bar'"},
	{"TypeError: f() got an unexpected keyword argument 'a'", "TypeError: f() got an unexpected keyword argument 'b'"},
	{"Error: Cannot find module 'left-pad'", "Error: Cannot find module 'express'"},
	{"TypeError: Cannot read properties of undefined (reading 'id')",
		"TypeError: Cannot read properties of undefined (reading 'name')"},
	{"ERR unknown command 'FOO', with args beginning with: ", "ERR unknown command 'BAR', with args beginning with: "},
	{`json: unknown field "a"`, `json: unknown field "b"`},
	{"java.lang.NullPointerException", "java.lang.IllegalStateException"},
	{"java.io.IOException", "java.net.SocketException"},
	{"org.apache.kafka.common.errors.TimeoutException", "org.apache.kafka.common.errors.WakeupException"},
	{"users.email is taken", "users.phone is taken"}, {"pq.Error", "pq.Warning"}, {"main.go is bad", "util.go is bad"},
	{"Foo.bar failed", "Foo.baz failed"}, {"need v1.2 of proto", "need v1.2 of codec"},
	{"bad users_email_key", "bad users_phone_key"}, {"bad max_attempts", "bad not_found"},
	{"bad max_authentication", "bad max_configuration"},
	{"and/or", "TCP/IP"}, {"bad application/json", "bad application/xml"}, {"use GET/POST", "use PUT/DELETE"},
	{"net/http: request canceled", "net/url: request canceled"},
	{"github.com/a/b.Run failed", "github.com/a/b.Stop failed"},
	{"encoding/json.Marshal", "encoding/xml.Marshal"},
	{"a decade", "a facade"}, {"was defaced", "was effaced"}, {"a bad face", "a bad cafe"},
	{"getUserByIdOrNull failed", "getOrderByIdOrNull failed"},
	{"UnsupportedMediaTypeHttpException", "NotFoundHttpException"},
	{"index_not_found_exception", "parse_exception"}, {"failed code=4001", "failed code=4002"},
	{"failed status=503", "failed status=404"},
	{`failed reason="disk full"`, `failed reason="no space"`},
	{"failed error=timeout user=a", "failed error=refused user=a"},
	{"failed type=a", "failed type=b"}, {"failed op=read", "failed op=write"},
	{"failed method=GET", "failed method=PUT"},
	{"email: invalid", "email: required"}, {"host: connection refused", "host: connection reset"},
	{"name: too long", "name: too short"},
	{"open file: permission denied", "open file: no such file or directory"}, {"key: not found", "key: expired"},
	{"open /a/b: permission denied", "open /a/b: no such file or directory"},
	{"dial tcp a.example.com:1: i/o timeout", "dial tcp a.example.com:1: refused"},
	{"curl: (22) The requested URL returned error: 404", "curl: (22) The requested URL returned error: 503"},
	{"WRONGTYPE Operation against a key", "READONLY You can't write against a read only replica"},
	{"NoSuchKey: The specified key does not exist.", "NoSuchBucket: The specified bucket does not exist."},
	{"bash: foo: command not found", "bash: bar: command not found"},
	{"HTTP/1.1 502 Bad Gateway", "HTTP/1.1 504 Gateway Timeout"},
	{"connect() failed (111: Connection refused)", "connect() failed (113: No route to host)"},
}

func TestFingerprintOfRealTexts(t *testing.T) {
	for _, p := range oneCause {
		if fingerprint.Of("K", p[0]) != fingerprint.Of("K", p[1]) {
			t.Errorf("not one cause:\n%s\n%s", fingerprint.Alike(p[0]), fingerprint.Alike(p[1]))
		}
	}
	for _, p := range twoCauses {
		if fingerprint.Of("K", p[0]) == fingerprint.Of("K", p[1]) {
			t.Errorf("one cause, %s:\n%s\n%s", fingerprint.Alike(p[0]), p[0], p[1])
		}
	}
	if len(oneCause)+len(twoCauses) < 60 {
		t.Error("too few pairs")
	}
}
