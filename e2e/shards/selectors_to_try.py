"""Texts for record.py: selectors, good, odd and refused, and parameters that are refused, too."""
z="'0x0000000000000000'"; o="'0x0000000000000001'"; t="'0x10000000000000000'"
def c(f, a, b):
    return f"shardRange({f}, {a}, {b})"


def u(a, b):
    return c("object.metadata.uid", a, b)


g=u(z,t)
SELECTORS = [" ", "nope","'x'","1","1u","1.5","true","null","b'x'","[1]","{1:2}","{}","x.y","x[0]","!x","-x","-1","a && b","a == b","a + b","a ? b : c","size(object)","object.size()","shardRange()","shardRange(object.metadata.uid)",
"x.shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')",
".shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')",
f"{g} && {g}",f"{g} ||",f"({g}",f"{g})",f"|| {g}",f"{g} || nope",f"{g} || 'x'",f"nope || {g}",f"{g} {g}",f"({g}) || (({g}))",
c("object.metadata.name",z,o),c("uid",z,o),c("",z,o),c("'object.metadata.uid'",z,o),c("object['metadata'].uid",z,o),c("object.metadata.uid()",z,o),c("1",z,o),c(".object.metadata.uid",z,o),c("object.metadata.`uid`",z,o),c("object.?metadata.uid",z,o),c("has(object.metadata.uid)",z,o),
u("0",o),u("0u",o),u("0.5",o),u("true",o),u("null",o),u("b'x'",o),u("x",o),u("[1]",o),u("-1",o),u("-x",o),u("{1:2}",o),u("f()",o),u("'0x0000000000000000",o),u("'0x0000000000000000'",'1'),u("'0000000000000000'",o),u("''",o),u("'0x'",o),u("'0x0'",o),u("'0x000000000000000A'",o),u("'0x000000000000000A\"'",o),u("'0x00000000000000é0'",o),u("'0x0000000000000000000'",o),u(z,"'0x10000000000000001'"),u(z,"'0x10000000000000000'"),u(o,o),u(t,o),u(t,t),u(o,z),u(z,"'0X0000000000000001'"),
u("'0x\\x300000000000000000'",o),u("\"0x0000000000000000\"",o),u("'''0x0000000000000000'''",o),u("r'0x0000000000000000'",o),u("'0x00000000000000' + '00'",o),
f"{g} || {c('object.metadata.namespace',z,o)}",f"{c('object.metadata.name',z,o)} || nope", f"{u(o,o)} || nope",
"shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000',)", "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000', 1)",
"(", ")", "||", "@", "#", "$x", "a b", "a.", "a(", "f(,)", "1 +", "'", "\"abc", "é", "a..b", "// comment", g+" // comment", "/* x */", "a | b", "a || || b", "a ? b", "[", "{", "{1", "x{", "in", "as", "for", "package.x", "T{a: 1}", "shardRange", "shardRange(", "shardRange(object.metadata.uid", "0x", "99999999999999999999", "1e999", "'\\q'","\\", "a\nb", "\n\nnope", "has(a)", "has(a.b)", "[1].all(x, x)", "__x__", "a.b.c", "a=b", "a = b","a;b","%",
"shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')||shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')",
"\tshardRange ( object . metadata . uid , '0x0000000000000000' , \"0x10000000000000000\" ) ",
"shardRange(\nobject.metadata.uid, // c\n'0x0000000000000000', '0x10000000000000000')",
u("'0x8000000000000000'",t)+" || "+u(z,"'0x8000000000000000'"),
u("'0x8000000000000000'",t)+" || "+u("'0x8000000000000000'",t),
"("*30+g+")"*30, "("*300+g+")"*300, " || ".join([g]*3), " || ".join([u(z,o)]*100),
]
FIELDS = {
    "rv": {"resourceVersion": "x"}, "field": {"fieldSelector": "x.y=z"}, "label": {"labelSelector": "a=b=c"}, "match": {"resourceVersionMatch": "Exact"},
    "continue": {"continue": "x"}, "future": {"resourceVersion": "99999999"}, "watch": {"watch": "true", "timeoutSeconds": "1"},
    "watch-rv": {"watch": "true", "resourceVersion": "x", "timeoutSeconds": "1"}, "limit": {"limit": "x"},
}
