// Templates that take for ever, or all memory, where an operation forgets to pay: each ends as one short line, and so
// far below the limits that a fraction of them is enough.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace kvcal {
namespace {

// A part of the limit: a second of work is not needed to see that an operation pays.
#ifdef KVCAL_SANITIZED
constexpr size_t kPart = 400;  // a step takes thirty times as long
#else
constexpr size_t kPart = 40;
#endif

jinja::Limits part_of_limit(size_t part) {
  jinja::Limits limits;
  limits.max_steps /= part;
  return limits;
}

std::string outcome(const std::string& source, const jinja::Limits& limits = part_of_limit(kPart)) {
  try {
    return "rendered: " + jinja::render(jinja::parse_template(source), {}, limits, 0);
  } catch (const Error& e) {
    return e.what();
  }
}

bool is_limit(const std::string& message) {
  const bool short_line = message.size() < 300 && message.find('\n') == std::string::npos;
  const auto says = [&](const char* what) { return message.find(what) != std::string::npos; };
  return short_line && message.starts_with("line ") &&
         (says("steps; does it loop") || says("a text or list of more than") ||
          says("holds texts and lists of more than") || says("nested deeper than 200 levels"));
}

void expect_limits(const std::string& before, std::initializer_list<const char*> ends, const std::string& after = "") {
  for (const char* end : ends) EXPECT_PRED1(is_limit, outcome(before + end + after)) << end;
#ifndef KVCAL_SANITIZED
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  EXPECT_LT(used.ru_maxrss, 256 * 1024) << "KiB";
#endif
}

TEST(JinjaBudget, ValuesThatShareTheirParts) {
  const std::string lists =
      "{% set ns=namespace(x=[1],y=[1]) %}{% for i in range(50) %}{% set ns.x=[ns.x,ns.x] %}"
      "{% set ns.y=[ns.y,ns.y] %}{% endfor %}";
  expect_limits(lists, {"{{ ns.x==ns.y }}",
                        "{{ ns.x!=ns.y }}",
                        "{{ ns.x<ns.y }}",
                        "{{ ns.x>=ns.y }}",
                        "{{ ns.x is eq ns.y }}",
                        "{{ ns.x is in [ns.y] }}",
                        "{{ ns.x in [ns.y] }}",
                        "{{ ns.x not in [ns.y] }}",
                        "{{ [ns.x].count(ns.y) }}",
                        "{{ [ns.x].index(ns.y) }}",
                        "{{ [ns.x,ns.y]|sort }}",
                        "{{ [ns.x,ns.y]|min }}",
                        "{{ [ns.x,ns.y]|max }}",
                        "{{ [{'a':ns.x},{'a':ns.y}]|groupby('a') }}",
                        "{{ {1:ns.x,2:ns.y}|dictsort(by='value') }}",
                        "{{ {1:ns.x}=={1:ns.y} }}",
                        "{{ [{'a':ns.x}]|selectattr('a','eq',ns.y)|list }}",
                        "{{ [ns.x]|reject('ne',ns.y)|list }}",
                        "{% for i in [1,2] %}{{ loop.changed(ns.x if i==1 else ns.y) }}{% endfor %}",
                        "{{ ns.x|tojson }}",
                        "{{ ns.x|tojson(indent=4) }}",
                        "{{ ns.x }}",
                        "{{ ns }}",
                        "{{ ns.x~'' }}",
                        "{{ ns.x|string }}",
                        "{{ '%s' % [ns.x] }}",
                        "{{ '%r' % (ns.x,) }}",
                        "{{ '{}'.format(ns.x) }}",
                        "{{ '%s'|format(ns.x) }}",
                        "{{ [ns.x]|join }}",
                        "{{ [1,2]|join(ns.x) }}",
                        "{{ [ns.x]|map('upper')|list }}",
                        "{{ ns.x|trim }}",
                        "{{ ns.x|replace('1','2') }}",
                        "{{ 'a'|replace(ns.x,'2') }}",
                        "{{ ns.x|title }}",
                        "{{ ns.x|center }}",
                        "{{ ns.x|wordcount }}",
                        "{{ ns.x|safe }}",
                        "{{ ns.x|escape }}",
                        "{{ ns.x|from_json }}",
                        "{{ ns.x is filter }}",
                        "{{ ns.x is test }}",
                        "{{ ns.x is lower }}",
                        "{{ 'a'[ns.x] }}",
                        "{{ [].index(ns.x) }}",
                        "{{ raise_exception(ns.x) }}",
                        "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(ns.x) }}",
                        "{% set z %}{{ ns.x }}{% endset %}",
                        "{% filter upper %}{{ ns.x }}{% endfilter %}"});
  const std::string tuples =
      "{% set ns=namespace(x=(1,),y=(1,)) %}{% for i in range(50) %}{% set ns.x=(ns.x,ns.x) %}"
      "{% set ns.y=(ns.y,ns.y) %}{% endfor %}";
  expect_limits(tuples, {"{{ {ns.x:1} }}", "{{ {1:1}[ns.x] }}", "{{ {1:1}.get(ns.x) }}", "{{ ns.x in {1:1} }}",
                         "{{ [ns.x,ns.y]|unique|list }}", "{{ dict([(ns.x,1)]) }}", "{{ ns.x<ns.y }}"});
}

TEST(JinjaBudget, LongListsInALoop) {
  expect_limits("{% set l=range(100000)|list %}{% for i in l %}",
                {"{% if -1 in l %}{% endif %}",
                 "{% set q=l.count(-1) %}",
                 "{% set q=l.copy() %}",
                 "{% set q=l[1:] %}",
                 "{% if l==l[:] %}{% endif %}",
                 "{% set q=l|last %}",
                 "{% set q=l|reverse|first %}",
                 "{% set q=l|batch(3)|list %}",
                 "{% set q=l|slice(3)|list %}",
                 "{% set q=l|sum %}",
                 "{% set q=l|sort %}",
                 "{% set q=l|unique|list %}",
                 "{% set q=l|min %}",
                 "{% set q=l|join %}",
                 "{% set q=l*10 %}",
                 "{% set q=l+l %}",
                 "{% set q=l|select('odd')|list %}",
                 "{% set q=l|tojson %}",
                 "{% set q=range(100000) %}",
                 "{% set q=loop.cycle(*l) %}",
                 "{% set q=l|map('string')|list %}"},
                "{% endfor %}");
}

TEST(JinjaBudget, LongTextsInALoop) {
  expect_limits("{% set a='a'*250000~'b' %}{% set t='a'*500000 %}{% for i in range(99999) %}",
                {"{% set q=t.find(a) %}",
                 "{% set q=t.rfind('b'~'a'*250000) %}",
                 "{% set q=t.replace(a,'') %}",
                 "{% set q=t|replace(a,'') %}",
                 "{% set q=t.split(a) %}",
                 "{% set q=t.rsplit('b'~'a'*250000) %}",
                 "{% if a in t %}{% endif %}",
                 "{% set q=t.count(a) %}",
                 "{% set q=t.rpartition(a) %}",
                 "{% set q=t.strip(a) %}",
                 "{% set q=t|upper %}",
                 "{% set q=t|title %}",
                 "{% set q=t[::-1] %}",
                 "{% set q=t[499999] %}",
                 "{% set q=t|length %}",
                 "{% set q=t==t~'' %}",
                 "{% set q=t|wordcount %}",
                 "{% set q=t|indent %}",
                 "{% set q=t|tojson %}",
                 "{% set q='%r' % t %}",
                 "{% set q=t|e %}",
                 "{% set q=t.isalpha() %}",
                 "{% set q=t|list %}",
                 "{% set q=('1_'*1000000~'1')|int %}",
                 "{% set q=strftime_now('%999d'*100000) %}",
                 "{% set q='%9999s'*100000 % ((1,)*100000) %}"},
                "{% endfor %}");
}

TEST(JinjaBudget, WhatIsKept) {
  expect_limits("{% set ns=namespace(l=[]) %}{% for i in range(99999) %}",
                {"{% set ns.l=[ns.l,'a'*30000000] %}", "{% set ns.l=[ns.l,('a'*1000000)|list] %}",
                 "{% set ns.l=[ns.l,(','*1000000).split(',')] %}",
                 "{% set ns.l=[ns.l,range(100000)|map(attribute='nothing')|list] %}",
                 "{% set ns.l=[ns.l,range(100000)|map('string')|map(attribute='strip')|list] %}",
                 "{% set ns.l=[ns.l,([range(9)]*100000)|map('map','string')|list] %}",
                 "{% set ns.l=[ns.l,(['9'*4300]*100000)|map('int')|list] %}",
                 "{% set ns.l=[ns.l,dict(range(100000)|map('string')|batch(2))] %}",
                 "{% set ns.l=[ns.l,('['~'{},'*300000~'1]')|from_json] %}", "{% set ns.l=[{}['a'*1000000],ns.l] %}"},
                "{% endfor %}");
}

// Values that hold each other without being lists: freeing a long chain of them would exhaust the stack.
TEST(JinjaBudget, ChainsOfMethodsLoopsAndGenerators) {
  expect_limits(
      "{% set ns=namespace(x=[1]) %}{% for i in range(99999) %}",
      {"{% set ns.x=[ns.x].count %}", "{% set ns.x=[ns.x] %}", "{% for y in [ns.x] %}{% set ns.x=loop %}{% endfor %}",
       "{% set ns.x=[1]|map('default',ns.x) %}", "{% set ns.x=[1]|batch(2,ns.x) %}"},
      "{% endfor %}");
}

TEST(JinjaBudget, ManyNames) {
  std::string names;
  for (int i = 0; i < 100'000; ++i) names += "{% set a" + std::to_string(i) + "=1 %}";
  EXPECT_PRED1(is_limit, outcome(names));
  EXPECT_EQ(outcome("{{ '{:,}'.format(" + std::string(3000, '9') + ")|length }}"), "rendered: 3999");
}

// What long chats and tools need stays far inside: a megabyte of schema, ten thousand messages.
TEST(JinjaBudget, LongChatsRender) {
  const std::string chat =
      "{% set ns=namespace(out='',last=0) %}{% for i in range(10000) %}{% set text='<think>why</think>' ~ 'word '*100 "
      "%}"
      "{% if '</think>' in text %}{% set text=text.split('</think>')[-1].lstrip('\\n')|trim %}{% endif %}"
      "{% if loop.last or loop.previtem is defined %}{{ '<|im_start|>user\\n' + text + '<|im_end|>\\n' }}{% endif %}"
      "{% set ns.last=loop.index %}{% endfor %}";
  EXPECT_GT(outcome(chat, part_of_limit(4)).size(), 4'000'000u) << outcome(chat, part_of_limit(4)).substr(0, 200);
  const std::string tools =
      "{% set "
      "t={'type':'function','function':{'name':'f','parameters':{'a':{'type':'string','enum':['x','y',1,2.5]}}}} %}"
      "{% for i in range(10000) %}{{ t|tojson(indent=4) }}{% endfor %}";
  EXPECT_GT(outcome(tools, part_of_limit(4)).size(), 2'000'000u) << outcome(tools, part_of_limit(4)).substr(0, 200);
}

}  // namespace
}  // namespace kvcal
