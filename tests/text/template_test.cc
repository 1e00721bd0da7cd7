// Chat templates as transformers renders them. The texts were produced with Jinja2 3.1.6 in transformers' environment.

#include "tiny.h"

namespace pastkv::text {
namespace {

using Json = nlohmann::ordered_json;

std::string render_with_variables(const std::string& source, const Json& variables, std::int64_t now = 0) {
  return render({.source = source, .origin = "test", .tokens = json::object()}, Json::array(),
                {.extra = variables, .now = now});
}

TEST(Tojson, IsPythonsJsonDumps) {
  const Json variables = {{"x", {{"b", 1}, {"a", {1, 2}}, {"s", "a/b <—> 'q' & é"}}},
                          {"y", {{"b", 1}, {"a", {1, 2}}, {"e", Json::object()}, {"l", Json::array()}}},
                          {"z", {{"b", 1}, {"a", {1, 2}}}}};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ x|tojson }}", R"({"b": 1, "a": [1, 2], "s": "a/b <—> 'q' & é"})"},
      {"{{ y|tojson(indent=2) }}", "{\n  \"b\": 1,\n  \"a\": [\n    1,\n    2\n  ],\n  \"e\": {},\n  \"l\": []\n}"},
      {"{{ z|tojson(separators=(',', ':')) }}", R"({"b":1,"a":[1,2]})"},
      {"{{ {'b':1,'a':2}|tojson(sort_keys=True) }}", R"({"a": 2, "b": 1})"},
      {"{{ [1.0, 1e20, true, none]|tojson }}", "[1.0, 1e+20, true, null]"},
      {"{{ [0.1, 1e-5, 0.0001, 123456789.5, 1e15, 1e16, -0.0]|tojson }}",
       "[0.1, 1e-05, 0.0001, 123456789.5, 1000000000000000.0, 1e+16, -0.0]"},
      {R"({{ "\"\\\n\t\r"|tojson }})", R"("\"\\\n\t\r")"},
      {"{{ 'é😸'|tojson(ensure_ascii=True) }}", R"("\u00e9\ud83d\ude38")"}};
  for (const auto& [source, text] : cases) EXPECT_EQ(render_with_variables(source, variables), text) << source;
}

TEST(Template, SlicesNegativeIndicesAndChains) {
  EXPECT_EQ(render_with_variables(
                "{{ c.split('</think>')[-1] }}|{{ c[2:] }}|{{ m[1:]|length }}|{{ m[-1].role }}|"
                "{{ m[::-1]|map(attribute='role')|join(',') }}",
                {{"c", "a</think>b"}, {"m", {{{"role", "system"}}, {{"role", "user"}}, {{"role", "assistant"}}}}}),
            "b|/think>b|2|assistant|assistant,user,system");
}

Json roles(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back({{"role", name}, {"content", name + "?"}});
  return list;
}

TEST(Template, LooksAtNeighboursAndKeepsNamespaces) {
  EXPECT_EQ(render_with_variables("{% for m in ms %}{% if loop.index > 1 and loop.previtem.role != 'assistant' %} "
                                  "{% endif %}{{ m.role[0] }}{% if loop.nextitem is defined %}>"
                                  "{{ loop.nextitem.role[0] }}{% endif %};{% endfor %}",
                                  {{"ms", roles({"user", "user", "assistant", "user"})}}),
            "u>u; u>a; a>u;u;");
  EXPECT_EQ(render_with_variables("{%- set ns = namespace(n=0) -%}{%- for m in ms -%}{%- if m.role == 'user' -%}"
                                  "{%- set ns.n = ns.n + 1 -%}{%- endif -%}{%- endfor -%}{{ ns.n }}",
                                  {{"ms", roles({"user", "assistant", "user"})}}),
            "2");
}

TEST(StrftimeNow, TakesAnyFormatAndAFixedClock) {
  EXPECT_EQ(render_with_variables("{{ strftime_now('%Y-%m-%d') }}|{{ strftime_now('%d %b %Y') }}|"
                                  "{{ strftime_now('%Y-%m-%d %H:%M:%S') }}|{{ strftime_now('%A, %B %-d %j %p %%') }}|"
                                  "{{ strftime_now('') }}|{{ strftime_now('%H%z %Z|%%z') }}",
                                  Json::object(), 1721999109),
            "2024-07-26|26 Jul 2024|2024-07-26 13:05:09|Friday, July 26 208 PM %||13 |%z");
}

TEST(Template, BlocksLeaveNoBlankLines) {
  EXPECT_EQ(render_with_variables(
                "<s>\n{% for m in ms %}\n  {% if m.role == 'user' %}\nU: {{ m.content }}\n  {% else %}\n"
                "A: {{ m.content }}\n  {% endif %}\n{% endfor %}\nEND\n",
                {{"ms", {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", "yo"}}}}}),
            "<s>\nU: hi\nA: yo\nEND");
}

TEST(Template, RefusesInItsOwnWords) {
  const ChatTemplate chat{
      .source =
          "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{% for m in messages %}"
          "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}"
          "[{{ m.role }}:{{ m.content | trim }}]{% endfor %}",
      .origin = "chat_template.jinja",
      .tokens = json::object()};
  EXPECT_EQ(render(chat, roles({"user", "assistant", "user"}), {}), "[user:user?][assistant:assistant?][user:user?]");
  const std::string system = error_of([&] { render(chat, roles({"system", "user"}), {}); });
  EXPECT_NE(system.find("chat_template.jinja"), std::string::npos) << system;
  EXPECT_NE(system.find("no system"), std::string::npos) << system;
  EXPECT_NE(error_of([&] { render(chat, roles({"user", "user"}), {}); }).find("alternate"), std::string::npos);
}

TEST(Template, FilterArgumentsAndUndefinedValues) {
  EXPECT_EQ(
      render_with_variables(
          "{{ 'invalid'|int(default=99) }}|{{ 'z'|float(default=1.5) }}|"
          "{{ (u|max(attribute='age')).name }}|[{{ x.missing|upper }}]|"
          "{{ u|selectattr('age','gt',26)|map(attribute='name')|list }}",
          {{"u", {{{"name", "John"}, {"age", 30}}, {{"name", "Jane"}, {"age", 25}}, {{"name", "Bob"}, {"age", 35}}}},
           {"x", Json::object()}}),
      "99|1.5|Bob|[]|['John', 'Bob']");
}

TEST(Template, PrintsValuesAsPythonDoes) {
  EXPECT_EQ(render_with_variables(
                "{{ [true, none, 'a\\'b', 1.0, {'k': [\"x\"]}] }} {{ d }} {{ d ~ '!' }} {{ d|trim }} {{ 1e16 }}",
                {{"d", {{"a", {1, "b"}}}}}),
            "[True, None, \"a'b\", 1.0, {'k': ['x']}] {'a': [1, 'b']} {'a': [1, 'b']}! {'a': [1, 'b']} 1e+16");
}

TEST(Template, PythonsStringMethods) {
  EXPECT_EQ(render_with_variables("{{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b '.split() }} "
                                  "{{ 'xax'.strip('x') }} {{ 'éa'.find('a') }} {{ 'a.b'.partition('.')[2] }} "
                                  "{{ 'prefix'.removeprefix('pre') }} {{ 'Ab'.upper().startswith('AB') }}",
                                  Json::object()),
            "['a', 'b,c'] ['a,b', 'c'] ['a', 'b'] a 1 b fix True");
}

TEST(Template, LoopControlsAndGenerationBlocks) {
  EXPECT_EQ(
      render_with_variables("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}"
                            "{% endif %}{{ i }}{% endfor %}{% generation %}{% set x = 1 %}g{% endgeneration %}"
                            "[{{ x }}]{{ '{% generation %}' }}",
                            Json::object()),
      "023g[]{% generation %}");
}

TEST(Template, WhatJinjaRefusesIsRefused) {
  for (const std::string source :
       {"{% for x in none %}{% endfor %}", "{{ a.b.c }}", "{{ 'a' + 1 }}", "{{ missing|tojson }}", "{{ x|nofilter }}",
        "{% if %}", "{{ strftime_now('\\0') }}", "{{ [1]|map('string')|tojson }}"}) {
    EXPECT_NE(error_of([&] { render_with_variables(source, {{"x", 1}}); }), "") << source;
  }
}

TEST(Template, ThatNeverEndsOrFillsTheMemoryIsStopped) {
  const std::string loops =
      "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}"
      "{% endfor %}{% endfor %}{% endfor %}";
  EXPECT_NE(error_of([&] { render_with_variables(loops, Json::object()); }), "");
  const std::string large = "{% set x = 'a' * 100000 %}{% for a in range(10000) %}{{ x }}{% endfor %}";
  EXPECT_NE(error_of([&] { render_with_variables(large, Json::object()); }), "");
  EXPECT_NE(error_of([&] { render_with_variables(std::string(5000, '(') + "{{" + std::string(5000, '('), {}); }), "");
}

TEST(TemplateSource, SideFileThenConfigThenNone) {
  TinyFolder tiny(tokenizer_json(bpe({"a"})), {{"chat_template", "config"}, {"bos_token", {{"content", "<s>"}}}});
  formats::HfFolder& folder = tiny.folder();
  EXPECT_EQ(chat_template(folder)->source, "config");
  EXPECT_EQ(chat_template(folder)->tokens["bos_token"], "<s>");
  folder.chat_template = "side file";
  EXPECT_EQ(chat_template(folder)->source, "side file");
  folder.chat_template.reset();
  folder.tokenizer_config["chat_template"] = {{{"name", "tool_use"}, {"template", "tools"}},
                                              {{"name", "default"}, {"template", "plain"}}};
  EXPECT_EQ(chat_template(folder)->source, "plain");
  EXPECT_EQ(chat_template(folder, true)->source, "tools");
  folder.tokenizer_config["chat_template"] = {{{"name", "rag"}, {"template", "x"}}};
  EXPECT_NE(error_of([&] { chat_template(folder); }).find("default"), std::string::npos);
  folder.tokenizer_config.erase("chat_template");
  EXPECT_FALSE(chat_template(folder).has_value());
}

}  // namespace
}  // namespace pastkv::text
