#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/packages.h"
#include "src/analysis/config_check/rules.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check {
namespace {

using report::Cell;

struct Package {
  std::string name;            // as listed
  std::string version;         // all behind the first "="
  std::string strict_version;  // as the Python tool reads it: empty when there are more "="
};

class Packages {
 public:
  explicit Packages(std::string_view list) {
    for (std::string_view line : base::Split(list, '\n')) {
      line = base::Trim(line);
      const size_t sign = line.find('=');
      const std::string_view name = line.substr(0, sign);
      std::string_view version = sign == std::string_view::npos ? "" : line.substr(sign + 1);
      const bool two_parts = version.find('=') == std::string_view::npos;
      const std::string strict(two_parts ? version : "");
      if (version.starts_with('=')) {  // NAME==VERSION
        version.remove_prefix(1);
      }
      if (!name.empty()) {
        const Package package = {std::string(name), std::string(version), strict};
        by_name_[package.name] = package;
        by_normal_name_[internal::NormalName(name)] = package;
      }
    }
  }

  const Package* Exact(const std::string& name) const { return Find(by_name_, name); }
  const Package* AnySpelling(const std::string& name) const {
    return Find(by_normal_name_, internal::NormalName(name));
  }

 private:
  static const Package* Find(const std::map<std::string, Package>& map, const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? nullptr : &found->second;
  }

  std::map<std::string, Package> by_name_;  // later lines win
  std::map<std::string, Package> by_normal_name_;
};

using Version = std::optional<std::string>;

std::string VersionText(const Version& version) {
  return version && !version->empty() ? *version : "None";
}

// "2.1.0+cu118" and "2.1.0" are builds of one version.
bool SameRelease(const Version& a, const Version& b) {
  return a && b && a->substr(0, a->find('+')) == b->substr(0, b->find('+'));
}

class PipCheck {
 public:
  PipCheck(const Rules& rules, const CheckOptions& options, const Packages& bench,
           const Packages& cmp)
      : rules_(rules), options_(options), bench_(bench), cmp_(cmp) {
    result_.part = Part::kPip;
    result_.table = report::Table("pip", {"package", "bench version", "cmp version", "level"});
    differing_.part = builds_.part = unseen_.part = one_side_.part = Part::kPip;
  }

  CheckResult Run() {
    std::vector<std::string> names = rules_.packages;
    if (!options_.framework.empty()) {
      names.push_back(options_.framework);
    }
    for (const std::string& name : names) {
      CompareStandard(name);
    }
    if (!options_.compat) {
      for (const FurtherPackage& package : rules_.further_packages) {
        if (std::find(names.begin(), names.end(), package.name) == names.end()) {
          CompareFurther(package);
        }
      }
    }
    TellFindings();
    result_.compared = compared_;
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  void CompareStandard(const std::string& name) {
    const Package* bench = bench_.Exact(name);
    const Package* cmp = cmp_.Exact(name);
    const bool any_spelling =
        options_.normalize_pip || (!options_.compat && bench == nullptr && cmp == nullptr);
    if (any_spelling) {
      CompareFurther({name, true});
      return;
    }
    const auto version = [](const Package* package) {
      return package == nullptr ? Version() : Version(package->strict_version);
    };
    compared_ = compared_ || bench != nullptr || cmp != nullptr;
    if (version(bench) == version(cmp)) {
      return;
    }
    AddRow(name, version(bench), version(cmp), true);
    const Package* bench_any = bench_.AnySpelling(name);
    const Package* cmp_any = cmp_.AnySpelling(name);
    const auto unseen = [](const Package* exact, const Package* any) {
      return any != nullptr && (exact == nullptr || exact->strict_version != exact->version);
    };
    if (unseen(bench, bench_any) || unseen(cmp, cmp_any)) {
      AddExample(unseen_, fmt::format("{}: {} / {}", name, Listed(bench_any), Listed(cmp_any)));
    }
  }

  static std::string Listed(const Package* package) {
    return package == nullptr ? "none" : Shown(package->name + "=" + package->version);
  }

  void CompareFurther(const FurtherPackage& rule) {
    const auto version = [](const Package* package) {
      return package == nullptr ? Version() : Version(package->version);
    };
    const Version bench = version(bench_.AnySpelling(rule.name));
    const Version cmp = version(cmp_.AnySpelling(rule.name));
    compared_ = compared_ || bench || cmp;
    if (bench == cmp) {
      return;
    }
    if (SameRelease(bench, cmp)) {
      AddRow(rule.name, bench, cmp, false);
      AddExample(builds_, fmt::format("{}: {} / {}", rule.name, Shown(*bench), Shown(*cmp)));
      return;
    }
    const bool error = (bench && cmp) || rule.one_side_is_error;
    AddRow(rule.name, bench, cmp, error);
    if (!error) {
      AddExample(one_side_, fmt::format("{}: {} / {}", rule.name, Shown(VersionText(bench)),
                                        Shown(VersionText(cmp))));
    }
  }

  void AddRow(const std::string& name, const Version& bench, const Version& cmp, bool error) {
    report::Table& table = result_.table;
    const std::array<Cell, 4> cells = {table.KeepText(name), table.KeepText(VersionText(bench)),
                                       table.KeepText(VersionText(cmp)),
                                       Cell::Text(error ? "error" : "warning")};
    table.AddRow(cells);
    ++(error ? result_.errors : result_.warnings);
    if (error) {
      ++differing_count_;
      AddExample(differing_, fmt::format("{}: {} / {}", name, Shown(VersionText(bench)),
                                         Shown(VersionText(cmp))));
    }
  }

  void TellFindings() {
    if (differing_count_ > 0) {
      const Remedy& remedy = rules_.RemedyOf("pip");
      differing_.what = fmt::format("{} of the packages that matter differ{}", differing_count_,
                                    differing_count_ == 1 ? "s" : "");
      differing_.why = remedy.why;
      differing_.fix = remedy.fix;
      result_.findings.push_back(std::move(differing_));
    }
    if (!builds_.examples.empty()) {
      builds_.severity = Severity::kWarning;
      builds_.what = "packages of one version, but of other builds";
      builds_.why = "builds differ in their kernels, for instance with the CUDA version";
      result_.findings.push_back(std::move(builds_));
    }
    if (!one_side_.examples.empty()) {
      one_side_.severity = Severity::kNote;
      one_side_.what = "packages that only one side has; expected if the devices differ";
      result_.findings.push_back(std::move(one_side_));
    }
    if (!unseen_.examples.empty()) {
      unseen_.severity = Severity::kNote;
      unseen_.what = "packages whose name or version the sheet does not recognise";
      unseen_.fix = "--normalize-pip takes names in any spelling and versions with \"=\" inside";
      result_.findings.push_back(std::move(unseen_));
    }
  }

  const Rules& rules_;
  const CheckOptions& options_;
  const Packages& bench_;
  const Packages& cmp_;
  CheckResult result_;
  bool compared_ = false;  // one side at least has a package that matters
  size_t differing_count_ = 0;
  Finding differing_;
  Finding builds_;
  Finding unseen_;
  Finding one_side_;
};

}  // namespace

Result<CheckResult> CheckPip(const PackPair& packs, const CheckOptions& options) {
  MSP_ASSIGN_OR_RETURN(const std::string bench_list, packs.bench.ReadText(kPipMember));
  MSP_ASSIGN_OR_RETURN(const std::string cmp_list, packs.cmp.ReadText(kPipMember));
  const Packages bench(bench_list);
  const Packages cmp(cmp_list);
  return PipCheck(BuiltInRules(), options, bench, cmp).Run();
}

}  // namespace msprobe::analysis::config_check
